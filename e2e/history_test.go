package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/workflows"
	"github.com/onejob/onejob/workflows/replay"
)

// recordVariable names the folder where the histories are kept that
// workflows/replay_test.go replays. Set it to record them anew:
//
//	ONEJOB_RECORD_HISTORIES=../workflows/testdata/histories
const recordVariable = "ONEJOB_RECORD_HISTORIES"

// Each story ends with a closed run and returns its workflow's ID.
var stories = []struct {
	name string
	tell func(s *system) (workflowID string)
}{
	{"straight", func(s *system) string {
		job := s.submit(s.request("straight", ""))
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{"late_answer", func(s *system) string {
		job := s.silent("late")
		s.eventually("the run knows", func() bool { return s.query(job.WorkflowID).Status == onejob.StatusUnknown })
		s.release("late")
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{"cancelled_attempt_then_fallback", func(s *system) string {
		job := s.silent("fallback")
		s.signal(job.WorkflowID, workflows.SignalCancelAttempt, `{"reason": "stuck", "by": "ana"}`)
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{"refused_then_failed", func(s *system) string {
		r := s.request("busy", `"status": 503, "retry_after": 1`)
		r.MaxAttempts = 2
		job := s.submit(r)
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{"cancelled_job", func(s *system) string {
		job := s.silent("unwanted")
		s.signal(job.WorkflowID, workflows.SignalCancelJob, `{"by": "ana"}`)
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{"direct_start", func(s *system) string {
		r := s.request("direct", "")
		reply, err := s.submitByUpdate(r)
		if err != nil {
			s.t.Fatal(err)
		}
		s.wait(reply.JobID)
		return onejob.WorkflowID(r.Owner, r.Key)
	}},
	{"adopted_after_terminate", func(s *system) string {
		job := s.silent("lost")
		before := s.currentRun(job.WorkflowID)
		if err := s.temporal.TerminateWorkflow(s.t.Context(), job.WorkflowID, "", "test"); err != nil {
			s.t.Fatal(err)
		}
		s.eventually("another run follows", func() bool { return s.currentRun(job.WorkflowID) != before })
		s.release("lost")
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{"usage_rebuild", func(s *system) string {
		return s.runToEnd(workflows.UsageRebuildType, activities.UsageWindow{First: "2026-11-01", Last: "2026-11-03"})
	}},
	{"audit", func(s *system) string {
		return s.runToEnd(workflows.AuditType, activities.AuditWindow{Days: 31})
	}},
}

// runToEnd runs a workflow that is no job's, and returns its ID.
func (s *system) runToEnd(workflowType string, input any) (workflowID string) {
	s.t.Helper()
	id := workflowType + "/" + uuid.NewString()
	run, err := s.temporal.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: s.queue}, workflowType, input)
	if err == nil {
		err = run.Get(s.t.Context(), nil)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *system) signal(workflowID, name, payload string) {
	s.t.Helper()
	if err := s.temporal.SignalWorkflow(s.t.Context(), workflowID, "", name, json.RawMessage(payload)); err != nil {
		s.t.Fatal(err)
	}
}

func TestEveryStoryReplays(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			id := story.tell(s)
			s.awaitRunClosed(id)
			history := s.history(id)
			if err := replay.History(history); err != nil {
				t.Error(err)
			}
			if folder := os.Getenv(recordVariable); folder != "" {
				record(t, filepath.Join(folder, story.name+".json"), protojson.Format(history))
			}
		})
	}
}

func record(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
