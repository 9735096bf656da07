package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/workflows"
)

// startByCLI starts the workflow as a person with the temporal command would.
func (s *system) startByCLI(workflowID, input string) {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), testservers.TemporalCLI(s.t), "workflow", "start", "--address", s.address,
		"--type", workflows.JobType, "--task-queue", s.queue, "--workflow-id", workflowID, "--input", input).CombinedOutput()
	if err != nil {
		s.t.Fatalf("temporal workflow start: %v: %s", err, out)
	}
}

func (s *system) text(r onejob.Request) string {
	s.t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// failureType returns the type of the application error that the workflow failed with.
func (s *system) failureType(workflowID string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	err := s.temporal.GetWorkflow(ctx, workflowID, "").Get(ctx, nil)
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return app.Type()
	}
	s.t.Fatalf("the workflow ended with %v, want an application error", err)
	return ""
}

func TestDirectStartRegistersItsOwnRow(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("direct", "")
	id := onejob.WorkflowID(r.Owner, r.Key)
	s.startByCLI(id, s.text(r))
	var outcome onejob.Outcome
	if err := s.temporal.GetWorkflow(t.Context(), id, "").Get(t.Context(), &outcome); err != nil || outcome.Status != onejob.StatusSucceeded {
		t.Fatalf("the run returned %+v, %v", outcome, err)
	}
	again := s.submit(r)
	if again.JobID != outcome.JobID || again.Created {
		t.Errorf("a submit of the same answered %+v, the run %+v", again, outcome)
	}
	s.wantOneRunAndRow(s.get(outcome.JobID).View, 1)
}

func TestDirectStartUnderAnotherIDIsRefused(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("direct", "")
	for _, input := range []string{s.text(r), referenceText(t, s, r)} {
		id := "job/" + s.owner + "/another"
		s.startByCLI(id, input)
		if got := s.failureType(id); got != "IdentityMismatch" {
			t.Errorf("input %s: the run failed with %s", input, got)
		}
	}
	if n := s.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs were stored: a refused start burns no key", n)
	}
}

// referenceText is the input by reference of a job that is registered and not started.
func referenceText(t *testing.T, s *system, r onejob.Request) string {
	t.Helper()
	job, err := onejob.NewJob(r, s.config.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(job.Reference())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDirectStartOfAnotherIntentIsRefused(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.submit(s.request("k", ""))
	s.wait(job.JobID)
	s.awaitRunClosed(job.WorkflowID)
	s.startByCLI(job.WorkflowID, s.text(s.request("k", `"latency": "1ms"`)))
	if got := s.failureType(job.WorkflowID); got != "IdempotencyConflict" {
		t.Errorf("the run failed with %s", got)
	}
	if n := s.executions(job.JobID); n != 1 {
		t.Errorf("the provider executed it %d times", n)
	}
}

func TestDirectStartOfNoRequestIsRefused(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	for name, input := range map[string]string{
		"unknown member": `{"owner": "o", "key": "k", "kind": "ticket", "provider": "primary", "input": 1, "retries": 3}`,
		"unknown kind":   s.text(onejob.Request{Owner: s.owner, Key: "k", Kind: "nothing", Provider: "primary", Input: json.RawMessage("1")}),
		"no object":      `[1]`,
	} {
		id := onejob.WorkflowID(s.owner, name)
		s.startByCLI(id, input)
		if got := s.failureType(id); got != "InvalidRequest" {
			t.Errorf("%s: the run failed with %s", name, got)
		}
	}
	if n := s.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs were stored", n)
	}
}

// submitByUpdate starts the workflow and sends the update submit in one request, as any
// Temporal SDK can.
func (s *system) submitByUpdate(r onejob.Request) (reply workflows.SubmitReply, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	text := json.RawMessage(s.text(r))
	start := s.temporal.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
		ID: onejob.WorkflowID(r.Owner, r.Key), TaskQueue: s.queue,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, workflows.JobType, text)
	handle, err := s.temporal.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: start,
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateName: workflows.UpdateSubmit, Args: []any{text}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err == nil {
		err = handle.Get(ctx, &reply)
	}
	return reply, activities.FromTemporal(err)
}

func TestUpdateWithStartAnswersAtOnce(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("update", "")
	first, err := s.submitByUpdate(r)
	if err != nil || !first.Created {
		t.Fatalf("the first got %+v, %v", first, err)
	}
	second, err := s.submitByUpdate(r)
	if err != nil || second.Created || second.JobID != first.JobID {
		t.Errorf("the second got %+v, %v", second, err)
	}
	s.wait(first.JobID)
	if _, err := s.submitByUpdate(s.request("update", `"latency": "1ms"`)); !errors.Is(err, onejob.ErrConflict) {
		t.Errorf("another intent got %v, want a conflict", err)
	}
	bad := s.request("bad", "")
	bad.Provider = "nobody"
	if _, err := s.submitByUpdate(bad); !errors.Is(err, onejob.ErrInvalidRequest) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a bad request got %v", err)
	}
	if n := s.executions(first.JobID); n != 1 {
		t.Errorf("the provider executed it %d times", n)
	}
}
