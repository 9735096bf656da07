package dev

import (
	"io"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const taskQueue = "dev-test"

func startTemporal(t *testing.T, opts TemporalOptions) *Temporal {
	t.Helper()
	opts.Own, opts.Log = true, io.Discard
	server, err := StartTemporal(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopTemporal(t, server) })
	return server
}

func stopTemporal(t *testing.T, server *Temporal) {
	t.Helper()
	ctx, cancel := afterTest()
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, server *Temporal, namespace string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: server.Address(), Namespace: namespace, Logger: quietLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// echo answers the update "say" and ends.
func echo(ctx workflow.Context) (string, error) {
	var said string
	err := workflow.SetUpdateHandler(ctx, "say", func(ctx workflow.Context, word string) (string, error) {
		said = word
		return "said " + word, nil
	})
	if err != nil {
		return "", err
	}
	err = workflow.Await(ctx, func() bool { return said != "" && workflow.AllHandlersFinished(ctx) })
	return said, err
}

// startAndSay starts the workflow id by an update-with-start and returns the answer.
func startAndSay(t *testing.T, c client.Client, id, word string) string {
	t.Helper()
	start := c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: id, TaskQueue: taskQueue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword("OnejobOwner").ValueSet("ann")),
	}, echo)
	handle, err := c.UpdateWithStartWorkflow(t.Context(), client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{
			UpdateName: "say", Args: []any{word}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	if err := handle.Get(t.Context(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func runWorker(t *testing.T, c client.Client) {
	t.Helper()
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflow(echo)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

func TestUpdateWithStartWorksAtOnceInEveryNamespace(t *testing.T) {
	t.Parallel()
	server := startTemporal(t, TemporalOptions{Namespaces: []string{"second"}, Headless: true})
	if server.UIAddress() != "" {
		t.Errorf("headless, with a Web UI at %s", server.UIAddress())
	}
	for _, namespace := range []string{server.Namespace(), "second"} {
		c := dial(t, server, namespace)
		runWorker(t, c)
		if got := startAndSay(t, c, "w", "hello"); got != "said hello" {
			t.Errorf("namespace %s: the update answered %q", namespace, got)
		}
	}
}

func TestTemporalStateSurvivesInItsFolder(t *testing.T) {
	t.Parallel()
	opts := TemporalOptions{DataDir: dataFolder(t), Headless: true}
	first := startTemporal(t, opts)
	c := dial(t, first, first.Namespace())
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "kept", TaskQueue: taskQueue}, echo)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Kill(); err != nil { // worse than Stop
		t.Fatal(err)
	}
	stopTemporal(t, first)
	second := startTemporal(t, opts)
	c = dial(t, second, second.Namespace())
	runWorker(t, c)
	if got := startAndSay(t, c, "kept", "hello"); got != "said hello" {
		t.Errorf("the update answered %q", got)
	}
	var said string
	if err := c.GetWorkflow(t.Context(), "kept", run.GetRunID()).Get(t.Context(), &said); err != nil || said != "hello" {
		t.Errorf("the workflow returned %q, %v", said, err)
	}
}
