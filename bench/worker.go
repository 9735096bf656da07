package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// workerPart runs a worker of one of the systems, and tells when each job had its result.
type workerPart struct {
	task
	warmed   bool
	seen     *sightings
	temporal client.Client
	store    *postgres.Store  // nil for bare
	bare     sdkworker.Worker // nil for onejob
	stop     context.CancelFunc
	stopped  chan error
}

func newWorkerPart(ctx context.Context, t task) (part, error) {
	p := &workerPart{task: t, seen: newSightings()}
	var err error
	if p.temporal, err = dial(t.Temporal, p.seen); err != nil {
		return nil, err
	}
	if t.System == systemBare {
		p.bare = newBareWorker(p.temporal)
		return p, p.bare.Start()
	}
	return p, p.startOnejob(ctx)
}

func (p *workerPart) startOnejob(ctx context.Context) (err error) {
	if p.store, err = postgres.Open(ctx, p.Postgres); err != nil {
		return err
	}
	own, err := benchProvider(p.Provider)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Store: p.store, Temporal: p.temporal, Namespace: client.DefaultNamespace, Providers: provider.NewRegistry(own),
		Kinds: map[string]onejob.Kind{kindName: {}}, TaskQueue: onejobQueue, Logger: quiet(),
	})
	if err != nil {
		return err
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.stopped = make(chan error, 1)
	go func() { p.stopped <- w.Run(ctx) }()
	return nil
}

func (p *workerPart) ready() any { return struct{}{} }

// work waits until the jobs are over and tells when they were.
func (p *workerPart) work(ctx context.Context) (any, error) {
	jobs := p.WarmUp
	if p.warmed {
		jobs += p.Jobs
	}
	p.warmed = true
	select {
	case <-p.seen.closedCount(jobs):
		return p.seen.all(), nil
	case err := <-p.stopped:
		return nil, fmt.Errorf("it ended early: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(runLimit):
		return nil, fmt.Errorf("%d jobs were not over after %s", p.Jobs, runLimit)
	}
}

func (p *workerPart) end() (err error) {
	if p.bare != nil {
		p.bare.Stop()
	} else {
		p.stop()
		err = <-p.stopped
		p.store.Close()
	}
	p.temporal.Close()
	return err
}
