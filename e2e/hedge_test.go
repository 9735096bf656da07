package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/onejob/onejob"
)

// hedgeable returns a request of a kind free of side effects, whose primary is silent.
func (s *system) hedgeable(key, simulate string) onejob.Request {
	r := s.request(key, simulate)
	r.Kind, r.Provider, r.Fallbacks = "free", "patient", []string{"fallback"}
	r.HedgeAfter = onejob.Duration(300 * time.Millisecond)
	return r
}

func TestHedgeAnswersBesideASilentPrimary(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"before it is unknown": 10 * time.Second, "after it is unknown": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			r := s.hedgeable("silent", `"only": "patient", "accept": true, "run_until": "never"`)
			r.Timeout = onejob.Duration(timeout)
			job := s.submit(r)
			done := s.wait(job.JobID)
			if done.Status != onejob.StatusSucceeded || done.CompletedBy != 2 || len(done.Attempts) != 2 {
				t.Fatalf("the job is %+v", done.View)
			}
			first, hedge := done.Attempts[0], done.Attempts[1]
			if after := hedge.StartedAt.Sub(first.StartedAt); after > 5*time.Second {
				t.Errorf("the hedge started %v after the primary, not at hedge_after", after)
			}
			if hedge.Lane != 1 || hedge.Provider != "fallback" {
				t.Errorf("the hedge is %+v", hedge)
			}
			if first.State != onejob.AttemptCancelled || first.Reason != onejob.ReasonSlotTaken {
				t.Errorf("the loser is %+v", first)
			}
			s.eventually("the loser's provider was asked to give it up, and agreed", func() bool {
				return s.count(`SELECT count(*) FROM attempts WHERE job_id = $1 AND number = 1 AND provider_cancel = 'agreed'`, job.JobID) == 1
			})
			s.mustHaveBooked(job.JobID, 1, 1)
			s.awaitRunClosed(job.WorkflowID)
		})
	}
}

func TestPrimaryWinsAgainstItsHedge(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.hedgeable("primary", fmt.Sprintf(`"hold_after": %q`, s.hold("primary")))
	r.Provider, r.Fallbacks = "primary", nil // the hedge goes to the same provider, and is silent too
	job := s.submit(r)
	s.eventually("both run", func() bool { return s.executions(job.JobID) == 2 })
	s.release("primary")
	done := s.wait(job.JobID)
	if done.Status != onejob.StatusSucceeded || len(done.Attempts) != 2 {
		t.Fatalf("the job is %+v", done.View)
	}
	s.eventually("the loser's result is logged, and not kept", func() bool {
		return s.count(`SELECT count(*) FROM discarded_results WHERE job_id = $1 AND reason = 'slot_taken'`, job.JobID) == 1
	})
	if n := s.count(`SELECT count(*) FROM attempts WHERE job_id = $1 AND result IS NOT NULL`, job.JobID); n != 0 {
		t.Errorf("%d attempts keep a result", n)
	}
	s.mustHaveBooked(job.JobID, 2, 1)
	s.awaitRunClosed(job.WorkflowID)
}

func TestAnswerInTimeNeedsNoHedge(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.hedgeable("quick", "")
	r.HedgeAfter = onejob.Duration(30 * time.Second)
	job := s.submit(r)
	if done := s.wait(job.JobID); len(done.Attempts) != 1 || s.executions(job.JobID) != 1 {
		t.Errorf("the job is %+v", done.View)
	}
}

func TestHedgeThatFailsLeavesThePrimaryAlone(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.hedgeable("fails", fmt.Sprintf(`"hold_after": %q`, s.hold("fails")))
	r.Provider, r.Fallbacks = "primary", []string{"dead"}
	job := s.submit(r)
	s.eventually("the hedge has failed", func() bool {
		attempts := s.get(job.JobID).Attempts
		return len(attempts) == 2 && attempts[1].State == onejob.AttemptFailed
	})
	s.release("fails")
	if done := s.wait(job.JobID); done.CompletedBy != 1 || len(done.Attempts) != 2 {
		t.Errorf("the job is %+v", done.View)
	}
}
