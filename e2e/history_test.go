package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/simulator"
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
	name         string
	tell         func(s *system) (workflowID string)
	startsWorker bool // of its own configuration
}{
	{name: "straight", tell: func(s *system) string {
		job := s.submit(s.request("straight", ""))
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{name: "late_answer", tell: func(s *system) string {
		job := s.silent("late")
		s.eventually("the run knows", func() bool { return s.query(job.WorkflowID).Status == onejob.StatusUnknown })
		s.release("late")
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{name: "cancelled_attempt_then_fallback", tell: func(s *system) string {
		job := s.silent("fallback")
		s.signal(job.WorkflowID, workflows.SignalCancelAttempt, `{"reason": "stuck", "by": "ana"}`)
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{name: "refused_then_failed", tell: func(s *system) string {
		r := s.request("busy", `"status": 503, "retry_after": 1`)
		r.MaxAttempts = 2
		job := s.submit(r)
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{name: "cancelled_job", tell: func(s *system) string {
		job := s.silent("unwanted")
		s.signal(job.WorkflowID, workflows.SignalCancelJob, `{"by": "ana"}`)
		s.wait(job.JobID)
		return job.WorkflowID
	}},
	{name: "direct_start", tell: func(s *system) string {
		r := s.request("direct", "")
		reply, err := s.submitByUpdate(r)
		if err != nil {
			s.t.Fatal(err)
		}
		s.wait(reply.JobID)
		return onejob.WorkflowID(r.Owner, r.Key)
	}},
	{name: "adopted_after_terminate", tell: func(s *system) string {
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
	{name: "usage_rebuild", tell: func(s *system) string {
		return s.runToEnd(workflows.UsageRebuildType, activities.UsageWindow{First: "2026-11-01", Last: "2026-11-03"})
	}},
	{name: "audit", tell: func(s *system) string {
		return s.runToEnd(workflows.AuditType, activities.AuditWindow{Days: 31})
	}},
	{name: "certification", tell: tellCertification, startsWorker: true},
	{name: "certification_cancelled", tell: tellCancelledCertification, startsWorker: true},
	{name: "certification_renewal", tell: tellRenewal, startsWorker: true},
}

// tellCertification has a call that the provider refuses for a moment, and one whose worker is
// lost.
func tellCertification(s *system) string {
	c := sumContract(s.t)
	address, sim := ownSimulator(s.t)
	parts := holdFirst(c.goodParts(s.t), "answer")
	good := parts[2].replies[0]
	parts[2].replies = []simulator.Directives{{Status: http.StatusTooManyRequests}, good, good, good}
	if err := sim.SetPlan(s.t.Context(), simulator.Plan{Scripts: c.scripts(s.t, "good", parts)}); err != nil {
		s.t.Fatal(err)
	}
	models := s.simulated(address, "good ")
	stop := s.startWorker(models)
	runID := s.startCertification(c, "good")
	s.awaitCalls(runID, postgres.CallAnswered, sumCalls-1)
	stop()
	s.startWorker(models)
	if outcome, err := s.certifications().Await(s.t.Context(), c.SHA256, "good"); err != nil || outcome.State != postgres.CertificationPassed {
		s.t.Fatalf("%+v, %v", outcome, err)
	}
	return onejob.CertificationWorkflowID(c.SHA256, "good")
}

func tellCancelledCertification(s *system) string {
	c := sumContract(s.t)
	address, sim := ownSimulator(s.t)
	if err := sim.SetPlan(s.t.Context(), simulator.Plan{Scripts: c.scripts(s.t, "good", holdFirst(c.goodParts(s.t), "answer"))}); err != nil {
		s.t.Fatal(err)
	}
	s.startWorker(s.simulated(address, "good "))
	runID := s.startCertification(c, "good")
	s.awaitCalls(runID, postgres.CallAnswered, sumCalls-1)
	id := onejob.CertificationWorkflowID(c.SHA256, "good")
	if err := s.temporal.CancelWorkflow(s.t.Context(), id, ""); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.certifications().Await(s.t.Context(), c.SHA256, "good"); err != nil {
		s.t.Fatal(err)
	}
	return id
}

func tellRenewal(s *system) string {
	c := sumContract(s.t)
	address, sim := ownSimulator(s.t)
	if err := sim.SetPlan(s.t.Context(), simulator.Plan{Scripts: c.scripts(s.t, "good", c.goodParts(s.t))}); err != nil {
		s.t.Fatal(err)
	}
	models := s.simulated(address, "good ")
	s.startWorker(models, knowing(c))
	s.storeContract(c)
	pgtest.Certify(s.t, s.conn(), "sum", provedAt(c, "good", address), time.Hour)
	return s.runToEnd(workflows.CertificationRenewalType)
}

// runToEnd runs a workflow that is no job's, and returns its ID.
func (s *system) runToEnd(workflowType string, input ...any) (workflowID string) {
	s.t.Helper()
	id := workflowType + "/" + uuid.NewString()
	run, err := s.temporal.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: s.queue}, workflowType, input...)
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
			if !story.startsWorker {
				s.startWorker()
			}
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
