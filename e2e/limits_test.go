package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
)

// limited gives the provider "fallback" limits, at the doors and in the workers.
func (s *system) limited(limits provider.Limits) func(*worker.Config) {
	s.t.Helper()
	p, ok := s.newWorkerConfig().Providers.Get("fallback")
	if !ok {
		s.t.Fatal("no such provider")
	}
	p.Limits = limits
	return func(c *worker.Config) { c.Providers = c.Providers.With(p) }
}

func TestConcurrencyLimitHoldsForAllWorkersTogether(t *testing.T) {
	const jobs, most = 12, 2
	s := newSystem(t)
	limit := s.limited(provider.Limits{Concurrent: most})
	s.startWorker(limit)
	s.startWorker(limit)
	s.submitAs(limit)
	var submitted []onejob.Submitted
	for i := range jobs {
		r := s.request(fmt.Sprint(i), `"latency": "50ms"`)
		r.Provider = "fallback"
		submitted = append(submitted, s.submit(r))
	}
	for _, job := range submitted {
		s.wait(job.JobID)
	}
	if n := s.count(`
		SELECT max(beside)::int FROM (
			SELECT (SELECT count(*) FROM attempts b WHERE b.started_at <= a.started_at AND b.finished_at > a.started_at) AS beside
			FROM attempts a) x`); n > most || n == 0 {
		t.Errorf("%d attempts ran at once, want at most %d", n, most)
	}
}

func TestRateLimitHoldsAndOthersDoNotWaitForIt(t *testing.T) {
	s := newSystem(t)
	limit := s.limited(provider.Limits{PerSecond: 2})
	s.startWorker(limit)
	s.submitAs(limit)
	began := time.Now()
	var slow []onejob.Submitted
	for i := range 8 {
		r := s.request(fmt.Sprint("slow", i), "")
		r.Provider = "fallback"
		slow = append(slow, s.submit(r))
	}
	other := s.submit(s.request("other", ""))
	s.wait(other.JobID)
	if done := s.count(`SELECT count(*) FROM jobs WHERE provider = 'fallback' AND status = 'succeeded'`); done == len(slow) {
		t.Error("the limited jobs were all done before one that is not limited")
	}
	for _, job := range slow {
		s.wait(job.JobID)
	}
	// Temporal hands out what a second allows at once, and spreads the rest.
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("8 calls at 2 a second took %v", took)
	}
}
