package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
)

// In each state a job is put through the loss of its workflow. Whatever is lost, the
// rows are adopted, the provider is not called again, and the story ends as it would
// have.
var losses = []struct {
	name string
	lose func(s *system, workflowID string)
}{
	{"terminated", func(s *system, id string) {
		if err := s.temporal.TerminateWorkflow(s.t.Context(), id, "", "test"); err != nil {
			s.t.Fatal(err)
		}
	}},
	{"reset", func(s *system, id string) { s.reset(id) }},
	{"deleted", func(s *system, id string) { s.deleteRunning(id) }},
}

// reset resets the workflow's run to its first workflow task.
func (s *system) reset(workflowID string) {
	s.t.Helper()
	var first int64
	for _, e := range s.history(workflowID).Events {
		if e.EventType == enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED {
			first = e.EventId
			break
		}
	}
	if _, err := s.temporal.ResetWorkflowExecution(s.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: s.currentRun(workflowID)},
		Reason: "test", RequestId: uuid.NewString(), WorkflowTaskFinishEventId: first,
	}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) currentRun(workflowID string) string {
	s.t.Helper()
	d, err := s.temporal.DescribeWorkflow(s.t.Context(), workflowID, "")
	if err != nil {
		s.t.Fatal(err)
	}
	return d.WorkflowExecution.RunID
}

func (s *system) deleteRunning(workflowID string) {
	s.t.Helper()
	run := s.currentRun(workflowID)
	if _, err := s.temporal.WorkflowService().DeleteWorkflowExecution(s.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: run},
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestLostWorkflowWhileTheProviderIsCalled(t *testing.T) {
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.submit(s.request("calling", fmt.Sprintf(`"hold_after": %q`, s.hold("calling"))))
			s.awaitExecution(job.JobID)
			loss.lose(s, job.WorkflowID)
			s.awaitStatus(job.JobID, onejob.StatusUnknown) // the next run found an attempt that nobody of its own listens to
			s.release("calling")
			s.wantOneSuccess(job)
		})
	}
}

func TestLostWorkflowWhileUnknown(t *testing.T) {
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.silent("unknown")
			s.awaitRunKnowsUnknown(job.WorkflowID)
			before := s.currentRun(job.WorkflowID)
			loss.lose(s, job.WorkflowID)
			s.eventually("another run follows the job", func() bool {
				d, err := s.temporal.DescribeWorkflow(t.Context(), job.WorkflowID, "")
				return err == nil && d.WorkflowExecution.RunID != before
			})
			s.awaitRunKnowsUnknown(job.WorkflowID)
			s.release("unknown")
			s.wantOneSuccess(job)
			if s.hasEvent(job.WorkflowID, enumspb.EVENT_TYPE_TIMER_FIRED) {
				t.Error("the run was not told of the answer, it had to look")
			}
		})
	}
}

// awaitRunKnowsUnknown waits until a worker has taken up the workflow's latest run, and
// the run knows that its job is unknown.
func (s *system) awaitRunKnowsUnknown(workflowID string) {
	s.t.Helper()
	s.eventually("a worker takes up the run", func() bool { return s.hasEvent(workflowID, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) })
	s.eventually("the run knows", func() bool { return s.query(workflowID).Status == onejob.StatusUnknown })
}

// wantOneSuccess waits for the job to succeed by its first attempt and for its run to
// end, and checks that the provider was called once.
func (s *system) wantOneSuccess(job onejob.Submitted) {
	s.t.Helper()
	done := s.wait(job.JobID)
	s.awaitRunClosed(job.WorkflowID)
	if done.Status != onejob.StatusSucceeded || done.CompletedBy != 1 || len(done.Attempts) != 1 {
		s.t.Errorf("the job is %+v", done.View)
	}
	if n := s.executions(job.JobID); n != 1 {
		s.t.Errorf("the provider executed it %d times", n)
	}
}

func TestLostWorkflowWhileWaitingToRetry(t *testing.T) {
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			r := s.request("busy", `"status": 503, "retry_after": "3"`)
			r.MaxAttempts = 2
			job := s.submit(r)
			s.eventually("the first attempt was refused", func() bool {
				attempts := s.get(job.JobID).Attempts
				return len(attempts) == 1 && attempts[0].State == onejob.AttemptFailed
			})
			loss.lose(s, job.WorkflowID)
			done := s.wait(job.JobID)
			if done.Status != onejob.StatusFailed || len(done.Attempts) != 2 {
				t.Errorf("the job is %+v, want two attempts", done.View)
			}
			if gap := done.Attempts[1].StartedAt.Sub(done.Attempts[0].FinishedAt); gap < 3*time.Second {
				t.Errorf("the second attempt came %v after the first, the provider asked for 3s", gap)
			}
		})
	}
}

func TestRunOfAClosedJobEndsAtOnceWithItsOutcome(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	for _, c := range []struct {
		simulate string
		want     onejob.Status
	}{{"", onejob.StatusSucceeded}, {`"status": 422`, onejob.StatusFailed}} {
		job := s.submit(s.request("closed-"+string(c.want), c.simulate))
		if done := s.wait(job.JobID); done.Status != c.want {
			t.Fatalf("the job is %s", done.Status)
		}
		s.awaitRunClosed(job.WorkflowID)
		before := s.executions(job.JobID)
		s.reset(job.WorkflowID)
		s.awaitRunClosed(job.WorkflowID)
		var outcome onejob.Outcome
		err := s.temporal.GetWorkflow(t.Context(), job.WorkflowID, "").Get(t.Context(), &outcome)
		if (err == nil) != (c.want == onejob.StatusSucceeded) || err == nil && outcome.CompletedBy != 1 {
			t.Errorf("the run of the %s job returned %+v, %v", c.want, outcome, err)
		}
		if after := s.executions(job.JobID); after != before {
			t.Errorf("the provider was called again")
		}
	}
}
