package e2e

import (
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/worker"
)

// One attempt may work at a time and one may listen to a silent provider: what a worker
// of thousands of places meets when a provider falls silent under load.
func oneOfEach(c *worker.Config) { c.Working, c.Listening = 1, 1 }

func TestSilenceOfOneProviderKeepsNobodyWaitingOnAnother(t *testing.T) {
	s := newSystem(t)
	s.startWorker(oneOfEach)
	s.silent("first")
	other := s.request("other", "")
	other.Provider = "fallback"
	if done := s.wait(s.submit(other).JobID); done.Status != onejob.StatusSucceeded {
		t.Errorf("beside a silent attempt the job is %+v", done.View)
	}
}

func TestProviderThatAnswersNobodyIsNotCalledAgain(t *testing.T) {
	s := newSystem(t)
	s.startWorker(oneOfEach)
	first := s.silent("first")
	next := s.request("next", "")
	next.Fallbacks = []string{"fallback"}
	next.MaxAttempts = 1
	submitted := s.submit(next)
	done := s.wait(submitted.JobID)
	if done.Status != onejob.StatusSucceeded || done.CompletedBy != 2 {
		t.Fatalf("the job is %+v, want the fallback's result", done.View)
	}
	if first := done.Attempts[0]; first.State != onejob.AttemptFailed || first.Reason != onejob.ReasonProviderSilent {
		t.Errorf("the attempt on the silent provider is %+v", first)
	}
	if n := s.executions(submitted.JobID); n != 1 {
		t.Errorf("the providers executed it %d times", n)
	}

	s.release("first")
	s.wait(first.JobID)
	again := s.submit(s.request("again", ""))
	if done := s.wait(again.JobID); done.CompletedBy != 1 {
		t.Errorf("when the provider answers again the job is %+v, want its first attempt's result", done.View)
	}
}
