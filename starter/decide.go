package starter

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
)

// Decision says who decides and why; both are recorded.
type Decision struct {
	By     string // who decides; required
	Reason string
}

// StartAttempt asks for a new attempt of the job on the provider: the fallback button. A
// failed job is reopened. It is refused with [onejob.ErrAttemptUnresolved] while an
// attempt is under way or unknown, and with [onejob.ErrJobClosed].
func (s *Starter) StartAttempt(ctx context.Context, jobID, provider string, d Decision) error {
	return s.decide(ctx, jobID, onejob.Decision{Action: onejob.DecideStartAttempt, Provider: provider}, d)
}

// CancelAttempt gives up the attempt of that number, or for 0 the unresolved one, and lets
// the plan go on. It is refused with [onejob.ErrNothingToResolve].
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
	what.JobID, what.By, what.Reason, what.Token = job.ID, who.By, who.Reason, uuid.NewString()
	if err := what.Check(s.catalog); err != nil {
		return err
	}
	if _, err := s.store.Decide(ctx, what); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := s.runs.Wake(ctx, job.Reference()); err != nil {
		s.logger.Warn("recorded; the workflow follows when temporal answers", "job_id", job.ID, "action", what.Action, "error", err)
	}
	return nil
}
