package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// floorPart runs the statements of happy jobs, one after the other in each goroutine,
// with the provider call between them and no Temporal.
type floorPart struct {
	task
	warmed  bool
	store   *postgres.Store
	adapter provider.Adapter
}

func newFloorPart(ctx context.Context, t task) (part, error) {
	store, err := postgres.Open(ctx, t.Postgres)
	if err != nil {
		return nil, err
	}
	p, err := benchProvider(t.Provider)
	return &floorPart{task: t, store: store, adapter: p.Adapter}, err
}

func (p *floorPart) ready() any { return struct{}{} }

func (p *floorPart) work(ctx context.Context) (any, error) {
	t := p.task
	if !p.warmed {
		p.warmed, t = true, t.warm()
	}
	return generate(ctx, t, func(ctx context.Context, n int) (submitted, error) {
		job, err := onejob.NewJob(request(t.Run, n), catalog())
		if err != nil {
			return submitted{}, err
		}
		if _, err := p.store.InsertJobs(ctx, job); err != nil {
			return submitted{}, err
		}
		return submitted{id: job.WorkflowID, then: func() error { return p.finish(ctx, job) }}, nil
	})
}

func (p *floorPart) end() error {
	p.store.Close()
	return nil
}

// finish does what the activities do after the submit.
func (p *floorPart) finish(ctx context.Context, job onejob.Job) error {
	token := uuid.NewString()
	started, err := p.store.StartAttemptIfNoneLives(ctx, postgres.Start{
		JobID: job.ID, WorkflowID: job.WorkflowID, Number: 1, Provider: job.Provider, Execution: token,
	})
	if err != nil {
		return err
	}
	answer := p.adapter.Call(ctx, provider.Call{JobID: job.ID, Attempt: 1, Kind: started.Kind, Input: started.Input, IdempotencyKey: token})
	if answer.Certainty != provider.Succeeded {
		return fmt.Errorf("the provider failed: %s %s", answer.Reason, answer.Detail)
	}
	outcome := postgres.Outcome{State: onejob.AttemptSucceeded, Result: answer.Result, RecordedBy: token}
	if _, err := p.store.RecordOutcomeIfLive(ctx, job.ID, 1, outcome); err != nil {
		return err
	}
	completion, err := p.store.CompleteJobIfOpen(ctx, job.ID, 1)
	if err == nil && !completion.Won {
		err = fmt.Errorf("job %s was not completed", job.ID)
	}
	return err
}
