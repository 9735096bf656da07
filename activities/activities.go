package activities

import (
	"context"
	"log/slog"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// Options are what the activities work with.
type Options struct {
	Store     *postgres.Store
	Providers *provider.Registry
	Catalog   onejob.Catalog
	Tell      Teller
	Observer  Observer
	Logger    *slog.Logger
	Drain     time.Duration // what a call in flight gets when the worker stops
}

// Teller tells a job's workflow that its rows changed. Losing the message delays the job
// until the workflow looks by itself.
type Teller interface {
	AttemptChanged(ctx context.Context, workflowID string, attempt int) error
}

// Observer counts what happens.
type Observer interface {
	AttemptBecame(provider string, state onejob.AttemptState, reason onejob.Reason)
	RaceLost(provider string)
	DuplicateAnswered()
}

// Activities are registered with a worker; the workflow names them by method.
type Activities struct{ Options }

// New returns the activities. Every option must be set.
func New(o Options) *Activities { return &Activities{Options: o} }

// RegisterJob inserts the job of a request that came straight from Temporal, through the
// same code as every other door. It fails with InvalidRequest, IdempotencyConflict and,
// if workflowID is not the job's, IdentityMismatch.
func (a *Activities) RegisterJob(ctx context.Context, in RegisterInput) (Registration, error) {
	job, err := onejob.NewJob(in.Request, a.Catalog)
	if err != nil {
		return Registration{}, TemporalError(err)
	}
	if job.WorkflowID != in.WorkflowID {
		return Registration{}, TemporalError(onejob.Errorf(onejob.CodeIdentityMismatch,
			"workflow %q is not the one of owner %q and key %q: start it as %q", in.WorkflowID, job.Owner, job.Key, job.WorkflowID))
	}
	if in.JobID != "" {
		job.ID = in.JobID
	}
	registered, err := a.Store.InsertJobs(ctx, job)
	if err != nil {
		return Registration{}, TemporalError(err)
	}
	first := registered[0]
	if !first.Created {
		a.Observer.DuplicateAnswered()
	}
	return Registration{Job: first.Job.Reference(), Created: first.Created}, TemporalError(first.Err)
}

// RegisterInput is a request as it came, with the ID of the workflow it came to and the
// id that the job gets if it is new, the same for each try.
type RegisterInput struct {
	Request    onejob.Request `json:"request"`
	WorkflowID string         `json:"workflow_id"`
	JobID      string         `json:"job_id"`
}

// Registration is the job that the request's key has now.
type Registration struct {
	Job     onejob.Reference `json:"job"`
	Created bool             `json:"created"`
}
