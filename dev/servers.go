package dev

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
)

// Options says which servers [Start] starts. The zero value is temporary ones with a Web
// UI and durable settings.
type Options struct {
	DataDir   string    // their state survives in this folder; empty: temporary
	Throwaway bool      // see PostgresOptions
	Headless  bool      // no Web UI
	Own       bool      // start servers even when the environment names some
	Log       io.Writer // progress, in lines; nil: os.Stderr
}

// Servers is a running Postgres and a running Temporal.
type Servers struct {
	Postgres *Postgres
	Temporal *Temporal
}

// Start starts both servers at once and returns when both are ready. When one fails the
// other is stopped, and the errors are those of [StartPostgres] and [StartTemporal].
func Start(ctx context.Context, opts Options) (*Servers, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	log := newProgress(opts.Log)
	var s Servers
	var postgresErr, temporalErr error
	var starts sync.WaitGroup
	starts.Go(func() {
		s.Postgres, postgresErr = StartPostgres(ctx, PostgresOptions{
			DataDir: opts.DataDir, Throwaway: opts.Throwaway, Own: opts.Own, Log: log})
		cancelOn(cancel, postgresErr)
	})
	starts.Go(func() {
		s.Temporal, temporalErr = StartTemporal(ctx, TemporalOptions{
			DataDir: opts.DataDir, Headless: opts.Headless, Own: opts.Own, Log: log})
		cancelOn(cancel, temporalErr)
	})
	starts.Wait()
	if postgresErr == nil && temporalErr == nil {
		return &s, nil
	}
	return nil, errors.Join(context.Cause(ctx), s.Stop(context.Background()))
}

// cancelOn makes the first failure the one which is told: the other server's is its
// consequence.
func cancelOn(cancel context.CancelCauseFunc, err error) {
	if err != nil {
		cancel(err)
	}
}

// Stop stops both servers at once; see their own Stop for what ctx does. A server which
// was never started is left out.
func (s *Servers) Stop(ctx context.Context) error {
	var postgresErr, temporalErr error
	var stops sync.WaitGroup
	if s.Postgres != nil {
		stops.Go(func() { postgresErr = s.Postgres.Stop(ctx) })
	}
	if s.Temporal != nil {
		stops.Go(func() { temporalErr = s.Temporal.Stop(ctx) })
	}
	stops.Wait()
	return errors.Join(postgresErr, temporalErr)
}

// Environ is what a program needs in its environment to use the servers, as "K=V": the
// variables DATABASE_URL, TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, and, where they are
// known, ONEJOB_TEMPORAL_UI and ONEJOB_TEMPORAL_CLI. With a Temporal of our own it also
// turns the user's Temporal profile off, whose credentials are for another server.
func (s *Servers) Environ() []string {
	variables := []string{
		"DATABASE_URL=" + s.Postgres.URL(),
		"TEMPORAL_ADDRESS=" + s.Temporal.Address(),
		"TEMPORAL_NAMESPACE=" + s.Temporal.Namespace(),
	}
	if ui := s.Temporal.UIAddress(); ui != "" {
		variables = append(variables, "ONEJOB_TEMPORAL_UI="+ui)
	}
	if cli := s.Temporal.CLI(); cli != "" {
		variables = append(variables, "ONEJOB_TEMPORAL_CLI="+cli)
	}
	if !s.Temporal.External() {
		variables = append(variables, "TEMPORAL_CONFIG_FILE="+os.DevNull)
	}
	return variables
}
