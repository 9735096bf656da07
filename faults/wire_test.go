package faults_test

import (
	"testing"
	"time"

	"github.com/onejob/onejob"
)

// TestAcknowledgementLostInARun loses the acknowledgement of each transaction that a job
// runs through, one at a time, on a real worker.
func TestAcknowledgementLostInARun(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]string{
		"start the attempt": startsAttempt, "record the outcome": recordsOutcome, "complete the job": completes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			swallowed := s.proxy.SwallowCommit(match)
			s.startWorker()
			job := s.submit("")
			s.mustEndWith(job, 1)
			s.mustHaveExecuted(job, []int{1})
			within(t, "the acknowledgement is lost", swallowed.Fired())
		})
	}
}

func TestAcknowledgementOfTheSubmitLost(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.startWorker()
	s.starter = s.newStarter(s.proxy.URL())
	swallowed := s.proxy.SwallowCommit(insertsJob)
	job := s.submit("")
	within(t, "the acknowledgement is lost", swallowed.Fired())
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

func TestAcknowledgementOfSilenceLost(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	swallowed := s.proxy.SwallowCommit(marksUnknown)
	s.startWorker()
	job := s.submit(`"hold_after": "`+s.owner+`"`, func(r *onejob.Request) { r.Timeout = onejob.Duration(200 * time.Millisecond) })
	within(t, "the acknowledgement is lost", swallowed.Fired())
	s.awaitStatus(job, onejob.StatusUnknown)
	s.mustRefuseAnother(job)
	s.release(s.owner)
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

func TestAcknowledgementOfFailureLost(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	swallowed := s.proxy.SwallowCommit(fails)
	s.startWorker()
	job := s.submit(`"status": 422, "execute": false`)
	within(t, "the acknowledgement is lost", swallowed.Fired())
	detail := s.awaitStatus(job, onejob.StatusFailed)
	if detail.Error == nil || detail.Error.Code != onejob.ReasonRejected || detail.Version != 0 {
		t.Errorf("%+v, %+v", detail, detail.Error)
	}
	s.mustHaveExecuted(job, []int{0})
}

func TestAnswerIsKeptWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	inHand := s.proxy.HoldBefore(recordsOutcome)
	s.startWorker()
	job := s.submit("")
	within(t, "the answer is in hand", inHand.Reached())
	s.proxy.Refuse()
	s.eventually("the worker asks again", func() bool { return s.proxy.Refusals() >= 5 })
	if a := s.get(job).Attempts[0]; a.State.Final() {
		t.Errorf("the attempt is %+v while nothing could be written", a)
	}
	s.proxy.Resume()
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

func TestAnswerIsKeptWhilePostgresIsSilent(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	inHand := s.proxy.HoldBefore(recordsOutcome)
	s.startWorker()
	job := s.submit("")
	within(t, "the answer is in hand", inHand.Reached())
	s.proxy.Pause()
	inHand.Release()
	if a := s.get(job).Attempts[0]; a.State.Final() {
		t.Errorf("the attempt is %+v while nothing could be written", a)
	}
	s.proxy.Resume()
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}

// TestPostgresAwayAtTheSwap: what a local activity cannot do in a moment, a regular one
// does when Postgres is back.
func TestPostgresAwayAtTheSwap(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	swap := s.proxy.HoldBefore(completes)
	s.startWorker()
	job := s.submit("")
	within(t, "the swap", swap.Reached())
	s.proxy.Refuse()
	s.eventually("the worker asks again", func() bool { return s.proxy.Refusals() >= 5 })
	s.proxy.Resume()
	s.mustEndWith(job, 1)
	s.mustHaveExecuted(job, []int{1})
}
