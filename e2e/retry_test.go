package e2e

import (
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/simulator"
)

func TestRejectedGoesToTheFallback(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("rejected", `"only": "primary", "status": 422, "execute": false`)
	r.Fallbacks = []string{"fallback"}
	job := s.submit(r)
	done := s.wait(job.JobID)
	if done.Status != onejob.StatusSucceeded || done.CompletedBy != 2 || done.Attempts[0].Reason != onejob.ReasonRejected {
		t.Errorf("the job is %+v, want the second attempt to win after one rejected", done.View)
	}
	if n := s.executions(job.JobID); n != 1 {
		t.Errorf("the providers executed it %d times", n)
	}
}

func TestUnreachableIsTriedAgainThenGoesToTheFallback(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("dead", "")
	r.Provider, r.Fallbacks = "dead", []string{"primary"}
	job := s.submit(r)
	done := s.wait(job.JobID)
	if done.Status != onejob.StatusSucceeded || done.CompletedBy != 3 {
		t.Fatalf("the job is %+v, want the third attempt to win after two on the dead provider", done.View)
	}
	for _, a := range done.Attempts[:2] {
		if a.State != onejob.AttemptFailed || a.Reason != onejob.ReasonNotSent || !a.Retryable {
			t.Errorf("attempt %d is %+v, want failed (not_sent), retryable", a.Number, a)
		}
	}
	if n := s.executions(job.JobID); n != 1 {
		t.Errorf("the provider executed it %d times", n)
	}
}

func TestAttemptsAreCountedOverTheWholeJob(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("busy", `"status": 503`)
	r.Fallbacks, r.MaxAttempts = []string{"fallback"}, 3
	done := s.wait(s.submit(r).JobID)
	var providers []string
	for _, a := range done.Attempts {
		providers = append(providers, a.Provider)
	}
	if done.Status != onejob.StatusFailed || done.Error.Code != onejob.ReasonRefused || len(providers) != 3 || providers[2] != "fallback" {
		t.Errorf("the job is %s (%+v) after attempts on %v", done.Status, done.Error, providers)
	}
}

func TestLostReplyIsUnknownAndNeverCalledAgain(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	for _, fault := range []string{`"execute_then_drop": true`, `"cut_body": true`, `"status": 500`, `"status": 504`} {
		r := s.request(fault, fault)
		r.Fallbacks = []string{"fallback"}
		job := s.submit(r)
		unknown := s.awaitStatus(job.JobID, onejob.StatusUnknown)
		if a := unknown.Attempts[0]; len(unknown.Attempts) != 1 || a.State != onejob.AttemptUnknown {
			t.Errorf("%s: the attempts are %+v", fault, unknown.Attempts)
		}
		if err := s.starter.CancelJob(t.Context(), job.JobID, operator); err != nil {
			t.Error(err)
		}
		s.wait(job.JobID)
		if n := s.requests(job.JobID); n != 1 {
			t.Errorf("%s: the provider got %d requests", fault, n)
		}
	}
}

// requests returns how many requests of the job reached the provider.
func (s *system) requests(jobID string) int {
	s.t.Helper()
	counts, err := s.sim.Executions(s.t.Context(), simulator.Subject{Job: jobID})
	if err != nil {
		s.t.Fatal(err)
	}
	return counts.Requests
}
