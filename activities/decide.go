package activities

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// AdoptAttempts returns how far the job is, after fencing the attempt that did not come
// back and marking unknown what nobody listens to; see [postgres.Store.AdoptAttempts].
func (a *Activities) AdoptAttempts(ctx context.Context, q postgres.Adoption) (onejob.Progress, error) {
	p, err := a.Store.AdoptAttempts(ctx, q)
	return p, TemporalError(err)
}

// CompleteJob lets the attempt's result win, or discards it. It may be repeated.
func (a *Activities) CompleteJob(ctx context.Context, jobID string, attempt int) (onejob.Progress, error) {
	c, err := a.Store.CompleteJobIfOpen(ctx, jobID, attempt)
	if err == nil && c.Raced {
		loser, _ := c.Progress.Attempt(attempt)
		a.Observer.RaceLost(loser.Provider)
		a.Logger.Warn("result discarded: the slot was taken or the job closed", "job_id", jobID, "attempt", attempt,
			"winner", c.Progress.CompletedBy, "status", c.Progress.Status)
	}
	return c.Progress, TemporalError(err)
}

// FailJob closes the job as failed if nothing happened since version. It may be repeated.
func (a *Activities) FailJob(ctx context.Context, jobID string, version int) (onejob.Progress, error) {
	p, err := a.Store.FailJobIfNothingLives(ctx, jobID, version)
	return p, TemporalError(err)
}

// Action is what somebody decides about a job.
type Action string

// The actions.
const (
	ActionStartAttempt   Action = "start-attempt"
	ActionCancelAttempt  Action = "cancel-attempt"
	ActionResolveAttempt Action = "resolve-attempt"
	ActionCancelJob      Action = "cancel-job"
)

// Decision is somebody's decision about a job, as it comes to its workflow.
type Decision struct {
	JobID    string              `json:"job_id"`
	Action   Action              `json:"action"`
	Attempt  int                 `json:"attempt,omitempty"`  // 0: the unresolved one
	Provider string              `json:"provider,omitempty"` // of the attempt asked for
	As       onejob.AttemptState `json:"as,omitempty"`       // what a resolved attempt becomes
	Result   json.RawMessage     `json:"result,omitempty"`   // of one resolved as succeeded
	By       string              `json:"by"`
	Reason   string              `json:"reason,omitempty"`
	Token    string              `json:"token"` // the same for each try
}

// Decide records the decision if the job's rows allow it. It fails with NothingToResolve,
// AttemptUnresolved, JobClosed, InvalidRequest and NotFound.
func (a *Activities) Decide(ctx context.Context, d Decision) (onejob.Progress, error) {
	p, err := Apply(ctx, a.Store, a.Catalog, d)
	return p, TemporalError(err)
}

// Apply is Decide for every door: the workflow's updates and signals, and the SDK.
func Apply(ctx context.Context, store *postgres.Store, catalog onejob.Catalog, d Decision) (onejob.Progress, error) {
	who := postgres.Decision{By: d.By, Reason: d.Reason, Token: d.Token}
	if err := d.check(catalog); err != nil {
		return onejob.Progress{}, err
	}
	switch d.Action {
	case ActionStartAttempt:
		return store.RequestAttemptIfNoneLives(ctx, d.JobID, d.Provider, who)
	case ActionCancelAttempt:
		return store.CancelAttemptIfLive(ctx, d.JobID, d.Attempt, who)
	case ActionResolveAttempt:
		return store.ResolveAttemptIfLive(ctx, d.JobID, d.Attempt, d.As, d.Result, who)
	case ActionCancelJob:
		return store.CancelJobIfOpen(ctx, d.JobID, who)
	}
	return onejob.Progress{}, onejob.Errorf(onejob.CodeInvalidRequest, "action %q is not known", d.Action)
}

func (d Decision) check(catalog onejob.Catalog) error {
	if err := onejob.CheckName("by", d.By, onejob.MaxOwnerBytes); err != nil {
		return err
	}
	switch {
	case len(d.Reason) > maxReasonBytes:
		return onejob.Errorf(onejob.CodeInvalidRequest, "reason has %d bytes: use at most %d", len(d.Reason), maxReasonBytes)
	case !utf8.ValidString(d.Reason) || strings.ContainsRune(d.Reason, 0):
		return onejob.Errorf(onejob.CodeInvalidRequest, "reason is not text: use UTF-8 without NUL")
	case d.Attempt < 0:
		return onejob.Errorf(onejob.CodeInvalidRequest, "attempt %d does not exist: numbers start at 1", d.Attempt)
	case d.Action == ActionStartAttempt:
		return catalog.CheckProvider(d.Provider)
	case d.Action != ActionResolveAttempt:
		return nil
	case d.As == onejob.AttemptSucceeded && len(d.Result) > 0:
		return catalog.Limits.CheckResult(d.Result)
	case d.As == onejob.AttemptFailed && len(d.Result) == 0:
		return nil
	case d.As == onejob.AttemptSucceeded:
		return onejob.Errorf(onejob.CodeInvalidRequest, "an attempt that succeeded has a result: give the result")
	case d.As == onejob.AttemptFailed:
		return onejob.Errorf(onejob.CodeInvalidRequest, "an attempt that failed has no result: leave it out")
	}
	return onejob.Errorf(onejob.CodeInvalidRequest, "an attempt is resolved as failed or succeeded, not as %q", d.As)
}

const maxReasonBytes = 4096
