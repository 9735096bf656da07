package starter

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/workflows"
)

// Decision says who decides and why; both are recorded.
type Decision struct {
	By     string // who decides; required
	Reason string
	Token  string // the same for the same decision told twice; empty: it is told once

	// Uncertified asks for an attempt although its provider may have no certificate for the
	// contract of the job's kind. It is recorded.
	Uncertified bool
}

// StartAttempt asks for a new attempt of the job on the provider: the fallback button. A
// failed job is reopened. It is refused with [onejob.ErrAttemptUnresolved] while an
// attempt is under way or unknown, with [onejob.ErrJobClosed], and with
// [onejob.ErrBudgetExceeded] where a failed job does not fit into its owner's budget any more.
// A provider priced in another currency than the job reserved in is an
// [onejob.ErrInvalidRequest], one that needs a certificate and has none an
// [onejob.ErrNotCertified], unless d.Uncertified.
func (s *Starter) StartAttempt(ctx context.Context, jobID, provider string, d Decision) error {
	return s.decide(ctx, jobID, onejob.Decision{Action: onejob.DecideStartAttempt, Provider: provider}, d)
}

// CancelAttempt gives up the attempt of that number, or for 0 the unresolved one, and lets
// the plan go on. Its provider is asked first, by a worker, to give the call up; one that
// says that it is done already is believed. With Temporal or the workers away the attempt
// is given up all the same, some seconds later. It is refused with
// [onejob.ErrNothingToResolve].
func (s *Starter) CancelAttempt(ctx context.Context, jobID string, number int, d Decision) error {
	return s.decide(ctx, jobID, onejob.Decision{Action: onejob.DecideCancelAttempt, Attempt: number}, d)
}

// ResolveAttempt says what became of the attempt of that number, or for 0 of the
// unresolved one: failed, or succeeded with the result, which then has to win like any
// other. It is refused with [onejob.ErrNothingToResolve].
func (s *Starter) ResolveAttempt(ctx context.Context, jobID string, number int, as onejob.AttemptState, result json.RawMessage, d Decision) error {
	return s.decide(ctx, jobID, onejob.Decision{Action: onejob.DecideResolveAttempt, Attempt: number, As: as, Result: result}, d)
}

// CancelJob closes the job as cancelled. It is refused with [onejob.ErrJobClosed].
func (s *Starter) CancelJob(ctx context.Context, jobID string, d Decision) error {
	return s.decide(ctx, jobID, onejob.Decision{Action: onejob.DecideCancelJob}, d)
}

// decide commits the decision, then tells the workflow. The rows have it from then on:
// Temporal being down delays what follows and loses nothing.
func (s *Starter) decide(ctx context.Context, jobID string, what onejob.Decision, who Decision) error {
	job, err := s.store.Job(ctx, jobID)
	if err != nil {
		return err
	}
	what.JobID, what.By, what.Reason, what.Token, what.Uncertified = job.ID, who.By, who.Reason, cmp.Or(who.Token, uuid.NewString()), who.Uncertified
	if err := what.Check(s.catalog); err != nil {
		return err
	}
	var unasked error
	if what.Action == onejob.DecideCancelAttempt {
		answered, err := s.cancelByRun(ctx, job, what)
		if answered {
			return err
		}
		unasked = err
	}
	if _, err := s.store.Decide(ctx, what, s.catalog); err != nil {
		return err
	}
	if unasked != nil {
		s.logger.Warn("no worker answered: the attempt is given up without asking its provider", "job_id", job.ID, "attempt", what.Attempt, "error", unasked)
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := s.runs.Wake(ctx, s.catalog.Reference(&job)); err != nil {
		s.logger.Warn("recorded; the workflow follows when temporal answers", "job_id", job.ID, "action", what.Action, "error", err)
	}
	return nil
}

// cancelPatience is what a worker gets to ask the provider.
const cancelPatience = 12 * time.Second

// cancelByRun lets the job's run give the attempt up. Answered is false if nobody is there
// who could, and the error says why: the decision may be on its way, and its token makes it
// one decision.
func (s *Starter) cancelByRun(ctx context.Context, job onejob.Job, d onejob.Decision) (answered bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cancelPatience)
	defer cancel()
	err = s.runs.CancelAttempt(ctx, job.WorkflowID, workflows.AttemptDecision{Attempt: d.Attempt, By: d.By, Reason: d.Reason, Token: d.Token})
	switch onejob.CodeOf(err) {
	case onejob.CodeNothingToResolve, onejob.CodeNotFound, onejob.CodeInvalidRequest:
		return true, err
	}
	return err == nil, err
}
