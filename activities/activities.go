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
	Contracts Contracts // of the catalog's kinds
	Tell      Teller
	Observer  Observer
	Listening Listening
	Circuits  *Circuits
	Logger    *slog.Logger
	Callbacks string        // base URL at which providers reach us; empty: they do not
	Drain     time.Duration // what a call in flight gets when the worker stops
	Retention time.Duration // how old a message is at least when it is deleted; default [postgres.AuditRetention]
	Tokens    Tokens        // nil: no model's tokens can be counted, so only providers with their own prompt can be certified
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
	Audited(audit postgres.Audit)
	CertificateSuspended(provider string)
	CertificatesStand(standing []postgres.Certificate)
}

// Listening keeps the books on attempts whose provider has fallen silent, so that they
// take nothing from those that work, and are not without number.
type Listening interface {
	// Full says that as many attempts on the provider listen as may.
	Full(provider string) bool
	// Begin counts one more, until end is called.
	Begin(provider string) (end func())
	// BeginSearch counts a search for an outcome, until end is called. It returns false if
	// there are as many as may be.
	BeginSearch() (end func(), ok bool)
}

// Activities are registered with a worker; the workflow names them by method.
type Activities struct {
	Options

	contracts contracts // of certifications
}

// New returns the activities. Every option without a default must be set.
func New(o Options) *Activities { return &Activities{Options: o} }
