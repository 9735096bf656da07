package e2e

import (
	"fmt"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/worker"
)

// ownTemporal starts a Temporal server that the test may kill, with its store in dir.
func ownTemporal(t *testing.T, dir string) *dev.Temporal {
	t.Helper()
	server, err := dev.StartTemporal(t.Context(), dev.TemporalOptions{DataDir: dir, CLI: testservers.TemporalCLI(t), Own: true, Headless: true, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	return server
}

func TestJobAcceptedWhileTemporalIsDownRunsLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := ownTemporal(t, dir)
	way := newRelay(t, first.Address())
	s := newSystemOn(t, pgtest.URL(t), way.address())
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := s.request("away", "")
	job := s.submit(r)
	if !job.Created || job.Launched {
		t.Errorf("with Temporal down the submit answered %+v", job)
	}
	if again := s.submit(r); again.JobID != job.JobID || again.Created {
		t.Errorf("the second submit answered %+v", again)
	}
	way.mend(ownTemporal(t, dir).Address())
	s.startWorker()
	s.makeDue(job.JobID)
	s.wantOneSuccess(job)
	s.wantOneRunAndRow(s.get(job.JobID).View, 1)
}

// makeDue lets the reconciler look at the job now.
func (s *system) makeDue(jobID string) {
	s.t.Helper()
	if _, err := s.conn().Exec(s.t.Context(), `UPDATE jobs SET reconcile_at = clock_timestamp() WHERE id = $1`, jobID); err != nil {
		s.t.Fatal(err)
	}
}

func TestTemporalsWholeStoreLost(t *testing.T) {
	t.Parallel()
	first := ownTemporal(t, "")
	way := newRelay(t, first.Address())
	s := newSystemOn(t, pgtest.URL(t), way.address())
	s.startWorker()
	done := s.submit(s.request("done", ""))
	s.wait(done.JobID)
	unknown := s.silent("unknown")
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	way.cut()
	way.mend(ownTemporal(t, "").Address())
	s.makeDue(unknown.JobID)
	s.eventually("a new run follows the unknown job", func() bool {
		_, err := s.temporal.DescribeWorkflow(t.Context(), unknown.WorkflowID, "")
		return err == nil
	})
	s.awaitRunKnowsUnknown(unknown.WorkflowID)
	s.release("unknown")
	s.wantOneSuccess(unknown)
	if again := s.submit(s.request("done", "")); again.JobID != done.JobID || again.Status != onejob.StatusSucceeded {
		t.Errorf("the finished job answers %+v", again)
	}
	if n := s.executions(done.JobID); n != 1 {
		t.Errorf("the provider executed the finished job %d times", n)
	}
}

func TestAnswerArrivesWhileTheWorkerIsCutOffFromTemporal(t *testing.T) {
	s := newSystem(t)
	way := newRelay(t, s.address)
	s.startWorker(func(c *worker.Config) { c.Temporal = dialTemporal(t, way.address()) })
	job := s.submit(s.request("cut", fmt.Sprintf(`"hold_after": %q`, s.hold("cut"))))
	s.awaitExecution(job.JobID)
	way.cut()
	s.eventually("Temporal believes the attempt's worker dead", func() bool { return s.hasEvent(job.WorkflowID, enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT) })
	s.release("cut")
	s.eventually("the answer is recorded all the same", func() bool { return s.get(job.JobID).Attempts[0].State == onejob.AttemptSucceeded })
	way.mend(s.address)
	s.wantOneSuccess(job)
}

func (s *system) hasEvent(workflowID string, kind enumspb.EventType) bool {
	s.t.Helper()
	return s.countEvents(workflowID, kind) > 0
}

func (s *system) countEvents(workflowID string, kind enumspb.EventType) (n int) {
	s.t.Helper()
	for _, e := range s.history(workflowID).Events {
		if e.EventType == kind {
			n++
		}
	}
	return n
}

func TestPostgresRestartedInMidJob(t *testing.T) {
	t.Parallel()
	server, err := dev.StartPostgres(t.Context(), dev.PostgresOptions{Own: true, Throwaway: true, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(t.Context()) })
	if _, err := postgres.Migrate(t.Context(), server.URL(), func(string) {}); err != nil {
		t.Fatal(err)
	}
	address, _ := testservers.Temporal(t)
	s := newSystemOn(t, server.URL(), address)
	s.startWorker()
	job := s.submit(s.request("mid", fmt.Sprintf(`"hold_after": %q`, s.hold("mid"))))
	s.awaitExecution(job.JobID)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	s.release("mid") // the answer finds nobody to write it down
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.eventually("the job has succeeded", func() bool {
		d, err := s.starter.Get(t.Context(), job.JobID)
		return err == nil && d.Status == onejob.StatusSucceeded
	})
	s.wantOneSuccess(job)
}
