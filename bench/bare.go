package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	bareType   = "Bare"
	bareFirst  = "First"
	bareSecond = "Second"
)

// The settings of package worker, which the bare workflow gets too; a test compares them.
const (
	concurrentAttempts      = 4000
	concurrentLocal         = 200
	concurrentWorkflowTasks = 100
	pollers                 = 10
)

func newBareWorker(c client.Client) worker.Worker {
	w := worker.New(c, bareQueue, worker.Options{
		MaxConcurrentActivityExecutionSize:      concurrentAttempts,
		MaxConcurrentLocalActivityExecutionSize: concurrentLocal,
		MaxConcurrentWorkflowTaskExecutionSize:  concurrentWorkflowTasks,
		MaxConcurrentActivityTaskPollers:        pollers,
		MaxConcurrentWorkflowTaskPollers:        pollers,
		DisableRegistrationAliasing:             true,
	})
	w.RegisterWorkflowWithOptions(bareWorkflow, workflow.RegisterOptions{Name: bareType})
	for _, name := range []string{bareFirst, bareSecond} {
		w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: name})
	}
	return w
}

// bareWorkflow is two activities that do nothing, one after the other.
func bareWorkflow(ctx workflow.Context) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.ExecuteActivity(ctx, bareFirst).Get(ctx, nil); err != nil {
		return err
	}
	return workflow.ExecuteActivity(ctx, bareSecond).Get(ctx, nil)
}

func bareWorkflowID(run string, n int) string { return fmt.Sprintf("bare/%s/job-%06d", run, n) }
