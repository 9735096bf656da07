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
