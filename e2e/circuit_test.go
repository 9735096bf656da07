package e2e

import (
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/worker"
)

// breaking opens a circuit after three calls in a row that were not served.
func breaking(c *worker.Config) { c.CircuitFailures, c.CircuitOpenFor = 3, time.Hour }

func TestProviderThatDoesNotServeIsLeftAloneUntilOneCallIsServed(t *testing.T) {
	s := newSystem(t)
	s.startWorker(breaking)
	busy := s.request("busy", `"only": "primary", "status": 503`)
	busy.Fallbacks, busy.MaxAttempts = []string{"fallback"}, 5
	s.wait(s.submit(busy).JobID)                    // two calls, then the fallback
	s.wait(s.submit(withKey(busy, "busy 2")).JobID) // the third call opens the circuit
	s.eventually("the circuit is open", func() bool { return s.circuits() == 1 })

	job := s.submit(withKey(busy, "left alone"))
	done := s.wait(job.JobID)
	if first := done.Attempts[0]; first.Reason != onejob.ReasonCircuitOpen || done.CompletedBy != 2 {
		t.Errorf("the job is %+v with %+v, want the fallback's result at once", done.View, done.Attempts)
	}
	if n := s.requests(job.JobID); n != 1 {
		t.Errorf("the providers got %d requests, want that of the fallback", n)
	}

	s.hand(`UPDATE circuits SET open_until = clock_timestamp()`)
	served := s.request("served", "")
	served.Fallbacks = []string{"fallback"} // for as long as the worker has not heard that the time has passed
	s.eventually("a try is served and closes the circuit", func() bool {
		served.Key += "+"
		s.wait(s.submit(served).JobID)
		return s.circuits() == 0
	})
}

func TestPausedProviderIsCalledByNoWorker(t *testing.T) {
	s := newSystem(t)
	if err := s.store.PauseProvider(t.Context(), "primary", time.Hour, "ana", "they migrate"); err != nil {
		t.Fatal(err)
	}
	s.startWorker()
	r := s.request("paused", "")
	r.Fallbacks = []string{"fallback"}
	done := s.wait(s.submit(r).JobID)
	if done.CompletedBy != 2 || done.Attempts[0].Reason != onejob.ReasonCircuitOpen {
		t.Errorf("the job is %+v with %+v", done.View, done.Attempts)
	}
}

func withKey(r onejob.Request, key string) onejob.Request {
	r.Key = key
	return r
}

// circuits returns how many are not closed.
func (s *system) circuits() int {
	s.t.Helper()
	circuits, err := s.store.Circuits(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return len(circuits)
}
