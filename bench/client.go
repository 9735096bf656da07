package main

import (
	"context"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/starter"
)

// system is what is measured.
type system string

const (
	systemFloor  system = "floor"  // the SQL statements alone
	systemBare   system = "bare"   // Temporal alone
	systemOnejob system = "onejob" // all of it
)

const (
	onejobQueue = "bench-onejob"
	bareQueue   = "bench-bare"
)

// clientPart submits jobs.
type clientPart struct {
	task
	warmed   bool
	temporal client.Client
	store    *postgres.Store // nil for bare
	starter  *starter.Starter
}

func newClientPart(ctx context.Context, t task) (part, error) {
	temporal, err := dial(t.Temporal)
	if err != nil {
		return nil, err
	}
	p := &clientPart{task: t, temporal: temporal}
	if t.System == systemBare {
		return p, nil
	}
	if p.store, err = postgres.Open(ctx, t.Postgres); err != nil {
		return nil, err
	}
	p.starter = starter.New(starter.Options{Store: p.store, Temporal: temporal, Catalog: catalog(), TaskQueue: onejobQueue, Logger: quiet()})
	return p, p.store.Check(ctx)
}

func dial(address string, interceptors ...interceptor.ClientInterceptor) (client.Client, error) {
	return client.Dial(client.Options{HostPort: address, Logger: quiet(), Interceptors: interceptors})
}

func (p *clientPart) ready() any { return struct{}{} }

func (p *clientPart) work(ctx context.Context) (any, error) {
	t := p.task
	if !p.warmed {
		p.warmed, t = true, t.warm()
	}
	return generate(ctx, t, func(ctx context.Context, n int) (submitted, error) {
		if p.System == systemBare {
			return p.startBare(ctx, bareWorkflowID(t.Run, n))
		}
		s, err := p.starter.Submit(ctx, request(t.Run, n))
		return submitted{id: s.WorkflowID}, err
	})
}

func (p *clientPart) startBare(ctx context.Context, id string) (submitted, error) {
	_, err := p.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: bareQueue}, bareType)
	return submitted{id: id}, err
}

func (p *clientPart) end() error {
	p.temporal.Close()
	if p.store != nil {
		p.store.Close()
	}
	return nil
}
