package starter

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"

	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/workflows"
)

// Options are what a starter works with.
type Options struct {
	Store     *postgres.Store
	Temporal  client.Client  // a lazy one, if jobs shall be accepted while Temporal is down
	Catalog   onejob.Catalog // the kinds and providers that a request may name
	TaskQueue string         // default [workflows.TaskQueue]
	Logger    *slog.Logger   // default [slog.Default]
}

// Starter submits jobs and decides about them. It may be used concurrently.
type Starter struct {
	store   *postgres.Store
	runs    workflows.Runs
	catalog onejob.Catalog
	logger  *slog.Logger
}

// New returns a starter. The store and the client stay the caller's to close.
func New(o Options) *Starter {
	return &Starter{
		store:   o.Store,
		runs:    workflows.Runs{Client: o.Temporal, TaskQueue: cmp.Or(o.TaskQueue, workflows.TaskQueue)},
		catalog: o.Catalog,
		logger:  cmp.Or(o.Logger, slog.Default()),
	}
}

// Detail is a job with its attempts and its result.
type Detail struct {
	onejob.View
	Result json.RawMessage `json:"result"` // exactly as the provider wrote it, null: none
}

// Get returns the job of that id.
func (s *Starter) Get(ctx context.Context, jobID string) (Detail, error) {
	job, attempts, err := s.store.JobWithAttempts(ctx, jobID)
	if err != nil {
		return Detail{}, err
	}
	return Detail{View: job.View(append([]onejob.Attempt{}, attempts...)), Result: job.Result}, nil
}

// GetByKey returns the owner's job of that key.
func (s *Starter) GetByKey(ctx context.Context, owner, key string) (Detail, error) {
	job, err := s.store.JobByKey(ctx, owner, key)
	if err != nil {
		return Detail{}, err
	}
	return s.Get(ctx, job.ID)
}

// List returns jobs without their attempts, the newest first, at most f.Limit.
func (s *Starter) List(ctx context.Context, f postgres.Filter) ([]onejob.View, error) {
	jobs, err := s.store.Jobs(ctx, f)
	if err != nil {
		return nil, err
	}
	views := make([]onejob.View, len(jobs))
	for i := range jobs {
		views[i] = jobs[i].View(nil)
	}
	return views, nil
}
