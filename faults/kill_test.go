package faults_test

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/starter"
)

// Parts of the statements that a worker runs for a job, by what they do.
const (
	insertsJob     = "INSERT INTO jobs"
	startsAttempt  = "INSERT INTO attempts"
	recordsOutcome = "recorded_by = $10"
	completes      = "SET status = 'succeeded'"
	marksUnknown   = "SET state = 'unknown', reason = $3, detail"
	fails          = "SET status = 'failed'"
)

// killAt submits a job, kills its worker when it stands at the hold, and starts another.
// What was held is lost with the worker.
func (s *system) killAt(hold *pgproxy.Hold, change ...func(*onejob.Request)) (jobID string) {
	s.t.Helper()
	worker := s.startWorker()
	jobID = s.submit("", change...)
	within(s.t, "the worker stands at the moment", hold.Reached())
	worker.kill()
	hold.Cut()
	s.startWorker()
	return jobID
}

func TestWorkerKilledBeforeItsAttemptHasARow(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldBefore(startsAttempt))
	s.mustEndWith(job, 2)
	s.mustHaveExecuted(job, []int{0, 1})
	if a := s.get(job).Attempts[0]; a.State != onejob.AttemptFailed || a.Reason != onejob.ReasonNeverStarted {
		t.Errorf("an attempt that provably never ran is %+v", a)
	}
}

// TestWorkerThatWakesLateDoesNotCall: it froze before its attempt had a row. Temporal
// hands it attempts as long as its connections are there, and the job goes on without it.
func TestWorkerThatWakesLateDoesNotCall(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	inserting := s.proxy.HoldBefore(startsAttempt)
	sleeper := s.startWorker()
	job := s.submit("")
	within(t, "the worker is about to insert its attempt", inserting.Reached())
	sleeper.signal(syscall.SIGSTOP)
	s.startWorker()
	winner := s.awaitStatus(job, onejob.StatusSucceeded).CompletedBy
	s.mustEndWith(job, winner)
	asking := s.proxy.HoldBefore("a.execution = $3")
	inserting.Release()
	sleeper.signal(syscall.SIGCONT)
	within(t, "the sleeper asks whether it may call", asking.Reached())
	asking.Release()
	sleeper.stop()
	s.mustHaveExecuted(job, append(make([]int, winner-1), 1))
	for _, a := range s.get(job).Attempts[:winner-1] {
		if a.State != onejob.AttemptFailed || a.Reason != onejob.ReasonNeverStarted {
			t.Errorf("an attempt that slept is %+v", a)
		}
	}
}

func TestWorkerKilledBeforeTheCall(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldAfterCommit(startsAttempt), withFallback)
	s.mustBeLost(job)
	s.decide(func(ctx context.Context, by starter.Decision) error {
		return s.starter.ResolveAttempt(ctx, job, 1, onejob.AttemptFailed, nil, by)
	})
	s.mustEndWith(job, 2)
	s.mustHaveExecuted(job, []int{0, 1})
}

// mustBeLost waits until the job says that nobody knows what became of its attempt.
func (s *system) mustBeLost(jobID string) {
	s.t.Helper()
	detail := s.awaitStatus(jobID, onejob.StatusUnknown)
	if a := detail.Attempts[0]; len(detail.Attempts) != 1 || a.State != onejob.AttemptUnknown || a.Reason != onejob.ReasonWorkerLost {
		s.t.Errorf("the dead worker's attempt is %+v", detail.Attempts)
	}
	s.mustRefuseAnother(jobID)
}

func TestWorkerKilledDuringTheCall(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	worker := s.startWorker()
	job := s.submit(`"hold_after": "` + s.owner + `"`)
	s.awaitExecution(job)
	worker.kill()
	s.startWorker()
	s.mustBeLost(job)
	s.decide(func(ctx context.Context, by starter.Decision) error {
		return s.starter.ResolveAttempt(ctx, job, 0, onejob.AttemptSucceeded, json.RawMessage(`{"found": true}`), by)
	})
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
	if result := s.get(job).Result; string(result) != `{"found": true}` {
		t.Errorf("the result is %s", result)
	}
}

func TestWorkerKilledWithTheAnswerInHand(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldBefore(recordsOutcome), withFallback)
	s.mustBeLost(job)
	s.decide(func(ctx context.Context, by starter.Decision) error { return s.starter.CancelAttempt(ctx, job, 1, by) })
	s.mustEndWith(job, 2)
	s.mustHaveExecuted(job, []int{1, 1})
}

func TestWorkerKilledBeforeItLearnsThatTheAnswerIsRecorded(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldAfterCommit(recordsOutcome))
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

func TestWorkerKilledBetweenRecordAndSwap(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldBefore(completes))
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

func TestWorkerKilledBeforeTheSwapCommits(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldBeforeCommit(completes))
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

func TestWorkerKilledBeforeItLearnsThatItWon(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	job := s.killAt(s.proxy.HoldAfterCommit(completes))
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}
