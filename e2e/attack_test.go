package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

// Each test here was an attack that once succeeded.

// settleAfterReset resets the workflow and waits until the new run has ended.
func (s *system) settleAfterReset(workflowID string) {
	s.t.Helper()
	before := s.currentRun(workflowID)
	s.reset(workflowID)
	s.eventually("the reset run exists", func() bool { return s.currentRun(workflowID) != before })
	s.awaitRunClosed(workflowID)
}

func TestResetRepeatsNoDecision(t *testing.T) {
	t.Run("an attempt that was asked for", func(t *testing.T) {
		s := newSystem(t)
		s.startWorker()
		r := s.request("asked", `"status": 503, "retry_after": "20"`)
		r.MaxAttempts = 2
		job := s.submit(r)
		refused := func(attempts []onejob.Attempt) bool {
			return len(attempts) == 1 && attempts[0].State == onejob.AttemptFailed
		}
		s.eventually("the first attempt was refused", func() bool { return refused(s.get(job.JobID).Attempts) })
		s.eventually("the run knows", func() bool { return refused(s.query(job.WorkflowID).Attempts) })
		if err := s.update(job.WorkflowID, workflows.UpdateStartAttempt, workflows.AttemptRequest{Provider: "fallback", By: "ana"}); err != nil {
			t.Fatal(err)
		}
		before := s.wait(job.JobID)
		s.awaitRunClosed(job.WorkflowID)
		s.settleAfterReset(job.WorkflowID)
		if after := s.get(job.JobID); len(after.Attempts) != 2 || after.Version != before.Version {
			t.Errorf("after the reset the job is %+v, before it was %+v", after.View, before.View)
		}
	})
	t.Run("an attempt that was cancelled", func(t *testing.T) {
		s := newSystem(t)
		s.startWorker()
		job := s.silent("given-up")
		s.signal(job.WorkflowID, workflows.SignalCancelAttempt, `{"by": "ana"}`)
		before := s.wait(job.JobID)
		s.awaitRunClosed(job.WorkflowID)
		s.settleAfterReset(job.WorkflowID)
		if after := s.get(job.JobID); len(after.Attempts) != len(before.Attempts) {
			t.Errorf("after the reset the job is %+v, before it was %+v", after.View, before.View)
		}
		if n := s.count(`SELECT count(*) FROM decisions`); n != 1 {
			t.Errorf("%d decisions are recorded, one was made", n)
		}
		s.release("given-up")
	})
}

func TestMalformedSignalDoesNotDeafenTheRun(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.silent("deaf")
	s.signal(job.WorkflowID, workflows.SignalCancelAttempt, `{"attempt": "1"}`)
	s.signal(job.WorkflowID, workflows.SignalCancelJob, `{"by": "ana"}`)
	if done := s.wait(job.JobID); done.Status != onejob.StatusCancelled {
		t.Errorf("the job is %s", done.Status)
	}
	s.release("deaf")
}

func TestForgedReportIsHeldAgainstTheRows(t *testing.T) {
	for name, report := range map[string]string{
		"empty":     `{}`,
		"succeeded": `{"attempt": {"number": 1, "provider": "primary", "state": "succeeded"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.submit(s.request("forged", fmt.Sprintf(`"hold_after": %q`, s.hold("forged"))))
			s.awaitExecution(job.JobID)
			d, err := s.temporal.DescribeWorkflow(t.Context(), job.WorkflowID, "")
			if err != nil {
				t.Fatal(err)
			}
			pending := d.RawResponse.PendingActivities[0].ActivityId
			if err := s.temporal.CompleteActivityByID(t.Context(), client.DefaultNamespace, job.WorkflowID, "", pending, json.RawMessage(report), nil); err != nil {
				t.Fatal(err)
			}
			s.awaitStatus(job.JobID, onejob.StatusUnknown)
			s.release("forged")
			s.wantOneSuccess(job)
			if n := len(s.history(job.WorkflowID).Events); n > 60 {
				t.Errorf("the run wrote %d events", n)
			}
		})
	}
}

func TestAnswerIsKeptWhilePostgresDoesNotLetUsWrite(t *testing.T) {
	s := newSystem(t)
	role := "onejob_" + strings.ReplaceAll(s.owner[2:], "-", "")
	s.hand(`CREATE ROLE ` + role + ` LOGIN`)
	t.Cleanup(func() {
		if _, err := s.conn().Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role); err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	s.hand(`GRANT ALL ON ALL TABLES IN SCHEMA public TO ` + role)
	s.hand(`GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO ` + role)
	config := s.conn().Config()
	store := pgtest.Open(t, fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", role, config.Host, config.Port, config.Database))
	s.startWorker(func(c *worker.Config) { c.Store = store })
	job := s.submit(s.request("rights", fmt.Sprintf(`"hold_after": %q`, s.hold("rights"))))
	s.awaitExecution(job.JobID)
	s.hand(`REVOKE UPDATE ON attempts FROM ` + role)
	const rollbacks = `SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()`
	before := s.count(rollbacks)
	s.release("rights")
	s.eventually("the worker was refused", func() bool { return s.count(rollbacks) > before })
	s.hand(`GRANT UPDATE ON attempts TO ` + role)
	s.wantOneSuccess(job)
}

// hand runs a statement as a hand in psql would.
func (s *system) hand(sql string) {
	s.t.Helper()
	if _, err := s.conn().Exec(s.t.Context(), sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func TestReferenceIsHeldAgainstTheRow(t *testing.T) {
	s := newSystem(t)
	job := s.submit(s.request("forged", "")) // no worker yet: its run waits for one
	if err := s.temporal.TerminateWorkflow(t.Context(), job.WorkflowID, "", "test"); err != nil {
		t.Fatal(err)
	}
	s.startByCLI(job.WorkflowID, fmt.Sprintf(
		`{"job_id":%q,"owner":%q,"key":"forged","kind":"ticket","provider":"fallback","timeout":"5s","listen_for":"10s","max_attempts":1}`, job.JobID, s.owner))
	s.startWorker()
	if got := s.failureType(job.WorkflowID); got != "IdentityMismatch" {
		t.Errorf("the run failed with %s", got)
	}
	s.makeDue(job.JobID)
	s.wantOneSuccess(job)
	if a := s.get(job.JobID).Attempts[0]; a.Provider != "primary" {
		t.Errorf("the attempt ran on %s", a.Provider)
	}
}

// ear is a log handler that tells when a message was logged.
type ear struct {
	slog.Handler
	message string
	heard   chan struct{} // of capacity 1
}

func (e ear) Enabled(context.Context, slog.Level) bool { return true }

func (e ear) Handle(_ context.Context, r slog.Record) error {
	if r.Message == e.message {
		select {
		case e.heard <- struct{}{}:
		default: // once is enough
		}
	}
	return nil
}

func TestNewsThatTemporalMissedIsToldAgain(t *testing.T) {
	s := newSystem(t)
	way := newRelay(t, s.address)
	failed := ear{slog.DiscardHandler, "cannot tell the workflow now", make(chan struct{}, 1)}
	s.startWorker(func(c *worker.Config) {
		c.Temporal, c.HeartbeatTimeout, c.Logger = dialTemporal(t, way.address()), 10*time.Minute, slog.New(failed)
	})
	r := s.request("untold", fmt.Sprintf(`"hold_after": %q`, s.hold("untold")))
	r.Timeout = onejob.Duration(2 * time.Second)
	job := s.submit(r)
	s.awaitExecution(job.JobID)
	way.cut()
	<-failed.heard
	way.mend(s.address)
	s.eventually("the run is told", func() bool { return s.hasEvent(job.WorkflowID, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED) })
	s.release("untold")
	s.wantOneSuccess(job)
}
