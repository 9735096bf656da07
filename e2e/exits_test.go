package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"github.com/onejob/onejob"
)

// on returns a request to the provider, whose silence is noticed at once.
func (s *system) on(provider, key, simulate string) onejob.Request {
	r := s.request(key, simulate)
	r.Provider, r.Timeout = provider, onejob.Duration(500*time.Millisecond)
	return r
}

// wantOneAttempt fails unless the job succeeded by its only attempt, which was executed
// once and sent as often as said.
func (s *system) wantOneAttempt(jobID string, requests int) {
	s.t.Helper()
	done := s.wait(jobID)
	if done.Status != onejob.StatusSucceeded || len(done.Attempts) != 1 {
		s.t.Errorf("the job is %+v", done.View)
	}
	if n := s.executions(jobID); n != 1 {
		s.t.Errorf("the provider executed it %d times", n)
	}
	if n := s.requests(jobID); n != requests {
		s.t.Errorf("the provider got %d requests, want %d", n, requests)
	}
}

func TestLostReplyIsFoundByLookUp(t *testing.T) {
	for name, simulate := range map[string]string{
		"connection lost":                   `"execute_then_drop": true`,
		"body cut":                          `"cut_body": true`,
		"silence":                           `"silence": true`,
		"not found at first, then found":    `"execute_then_drop": true, "look_up": {"forget": 2}`,
		"look-ups that go wrong themselves": `"execute_then_drop": true, "look_up": {"broken": 2}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			s.wantOneAttempt(s.submit(s.on("asked", "lost", simulate)).JobID, 1)
		})
	}
}

func TestAcceptedCallRunsUntilItsOutcomeIsLookedUp(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.on("asked", "accepted", fmt.Sprintf(`"accept": true, "run_until": %q`, s.hold("accepted")))
	r.Timeout = onejob.Duration(10 * time.Second)
	job := s.submit(r)
	s.eventually("the attempt is running", func() bool { return s.firstState(job.JobID) == onejob.AttemptRunning })
	if status := s.get(job.JobID).Status; status != onejob.StatusRunning {
		t.Errorf("meanwhile the job is %s", status)
	}
	s.release("accepted")
	s.wantOneAttempt(job.JobID, 1)
}

func (s *system) firstState(jobID string) onejob.AttemptState {
	if attempts := s.get(jobID).Attempts; len(attempts) > 0 {
		return attempts[0].State
	}
	return ""
}

func TestAcceptedCallOutlivesItsTimeoutAndItsWorker(t *testing.T) {
	s := newSystem(t)
	stop := s.startWorker()
	job := s.submit(s.on("asked", "outlives", fmt.Sprintf(`"accept": true, "run_until": %q`, s.hold("outlives"))))
	s.awaitStatus(job.JobID, onejob.StatusUnknown)
	stop()
	s.startWorker()
	s.release("outlives")
	s.wantOneAttempt(job.JobID, 1)
}

func TestLostReplyIsHadAgainUnderTheSameKey(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.submit(s.on("again", "again", `"honour_key": true, "execute_then_drop": true`))
	s.wantOneAttempt(job.JobID, 2)
	if n := s.count(`SELECT reasks FROM attempts WHERE job_id = $1`, job.JobID); n != 1 {
		t.Errorf("the row counts %d re-asks", n)
	}
	if n := s.count(`SELECT count(*) FROM attempts WHERE job_id = $1 AND request IS NOT NULL`, job.JobID); n != 0 {
		t.Error("what was sent is kept after the outcome")
	}
}

func TestKeyIsNotTakenToAnotherPlace(t *testing.T) {
	s := newSystem(t)
	stop := s.startWorker(looksSoon)
	r := s.on("again", "moved", `"honour_key": true, "hold_after": "`+s.hold("moved")+`"`)
	job := s.submit(r)
	s.awaitStatus(job.JobID, onejob.StatusUnknown)
	stop()
	s.config = parseConfigWith(t, "/v1/run/again", "/v1/run/elsewhere")
	s.startWorker(looksSoon)
	s.eventually("the ways out were looked at again, now that nobody listens", func() bool {
		return s.countEvents(job.WorkflowID, enumspb.EVENT_TYPE_MARKER_RECORDED) >= 5 && s.searched(job.WorkflowID)
	})
	if n := s.requests(job.JobID); n != 1 {
		t.Errorf("the provider got %d requests, of which one under a key that means nothing there", n)
	}
}

func TestProviderThatDoesNotHonourKeysIsNeverAskedAgain(t *testing.T) {
	for _, provider := range []string{"primary", "fallback"} {
		t.Run(provider, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.submit(s.on(provider, "once", `"execute_then_drop": true`))
			s.awaitStatus(job.JobID, onejob.StatusUnknown)
			s.eventually("the search is over", func() bool { return s.searched(job.WorkflowID) })
			if n := s.requests(job.JobID); n != 1 {
				t.Errorf("the provider got %d requests", n)
			}
		})
	}
}

func TestCancelAsksTheProvider(t *testing.T) {
	for _, c := range []struct {
		name, simulate string
		verdict        string
		refusal        error
		winner         int
	}{
		{"that agrees", `"only": "patient", "accept": true, "run_until": "never"`, "agreed", nil, 2},
		{"that is done, and knows the result", `"only": "patient", "silence": true`, "refused", onejob.ErrNothingToResolve, 1},
		{"that does not say", `"only": "patient", "silence": true, "cancel": {"status": 500}`, "unsure", nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			r := s.on("patient", "cancel", c.simulate)
			r.Fallbacks = []string{"fallback"}
			job := s.submit(r)
			s.awaitStatus(job.JobID, onejob.StatusUnknown)
			if err := s.starter.CancelAttempt(t.Context(), job.JobID, 1, operator); !errors.Is(err, c.refusal) {
				t.Errorf("the cancel says %v, want %v", err, c.refusal)
			}
			if done := s.wait(job.JobID); done.Status != onejob.StatusSucceeded || done.CompletedBy != c.winner {
				t.Errorf("the job is %+v, want attempt %d to win", done.View, c.winner)
			}
			var verdict string
			if err := s.conn().QueryRow(t.Context(), `SELECT provider_cancel FROM attempts WHERE job_id = $1 AND number = 1`, job.JobID).Scan(&verdict); err != nil || verdict != c.verdict {
				t.Errorf("the provider's answer is kept as %q, %v, want %q", verdict, err, c.verdict)
			}
		})
	}
}

// searched says that the run has looked for ways out, and that no search is under way.
func (s *system) searched(workflowID string) bool {
	s.t.Helper()
	described, err := s.temporal.DescribeWorkflow(s.t.Context(), workflowID, "")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pending := range described.RawResponse.PendingActivities {
		if pending.ActivityType.Name == "SeekOutcome" {
			return false
		}
	}
	return s.hasEvent(workflowID, enumspb.EVENT_TYPE_MARKER_RECORDED)
}

func TestUsageThatNobodyToldIsEstimated(t *testing.T) {
	for name, simulate := range map[string]string{"by the answer": `"usage": null`, "by a look-up": `"usage": null, "execute_then_drop": true`} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.submit(s.on("asked", "usage", simulate))
			s.wait(job.JobID)
			if n := s.count(`
				SELECT count(*) FROM attempts WHERE job_id = $1 AND (usage ->> 'estimated')::boolean
					AND (usage ->> 'input_tokens')::int > 0 AND (usage ->> 'output_tokens')::int > 0`, job.JobID); n != 1 {
				t.Error("the attempt has no estimated usage above zero")
			}
		})
	}
}
