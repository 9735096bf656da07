package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/workflows"
)

var operator = starter.Decision{By: "ana", Reason: "the test says so"}

// silent submits a job whose provider holds its answer, executed already, until released
// by the name of its key, and waits until the job is unknown.
func (s *system) silent(key string, change ...func(*onejob.Request)) onejob.Submitted {
	s.t.Helper()
	r := s.request(key, fmt.Sprintf(`"only": "primary", "hold_after": %q`, s.hold(key)))
	r.Fallbacks = []string{"fallback"}
	r.Timeout = onejob.Duration(300 * time.Millisecond)
	r.ListenFor = onejob.Duration(2 * patience) // its end is not what a test waits for
	for _, f := range change {
		f(&r)
	}
	submitted := s.submit(r)
	s.awaitStatus(submitted.JobID, onejob.StatusUnknown)
	return submitted
}

// hold is the name under which the answer to the key's job is held.
func (s *system) hold(key string) string { return s.owner + "/" + key }

func (s *system) release(key string) {
	s.t.Helper()
	if _, err := s.sim.Release(s.t.Context(), s.hold(key)); err != nil {
		s.t.Fatal(err)
	}
}

func TestSilenceIsUnknownEverywhereAndBlocksTheNextAttempt(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.silent("silent")

	attempt := s.get(job.JobID).Attempts[0]
	if attempt.State != onejob.AttemptUnknown || attempt.Reason != onejob.ReasonTimeout {
		t.Errorf("the row says %s (%s)", attempt.State, attempt.Reason)
	}
	s.eventually("the query says unknown", func() bool { return s.query(job.WorkflowID).Status == onejob.StatusUnknown })
	s.eventually("the search attribute lists it", func() bool { return slices.Contains(s.stuck(), job.WorkflowID) })

	err := s.starter.StartAttempt(t.Context(), job.JobID, "fallback", operator)
	if !errors.Is(err, onejob.ErrAttemptUnresolved) || !strings.Contains(err.Error(), "attempt cancel "+job.JobID) {
		t.Errorf("the SDK answered %v, want a refusal that names the way out", err)
	}
	if err := s.update(job.WorkflowID, workflows.UpdateStartAttempt, workflows.AttemptRequest{Provider: "fallback"}); !errors.Is(err, onejob.ErrAttemptUnresolved) {
		t.Errorf("the workflow answered %v, want a refusal", err)
	}
	if s.hasEvent(job.WorkflowID, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED) {
		t.Error("the workflow took the request before it refused it")
	}
	_, err = s.conn().Exec(t.Context(), `INSERT INTO attempts (job_id, number, provider, model, job_version, execution) VALUES ($1, 2, 'fallback', '', 0, gen_random_uuid())`, job.JobID)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "OJ001" {
		t.Errorf("the database answered %v to a second attempt", err)
	}
	if n := s.executions(job.JobID); n != 1 {
		t.Errorf("the provider executed it %d times", n)
	}
}

// update sends an update to the workflow and returns the refusal it got, if any.
func (s *system) update(workflowID, name string, args ...any) error {
	handle, err := s.temporal.UpdateWorkflow(s.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(s.t.Context(), nil)
	}
	return activities.FromTemporal(err)
}

func TestLateAnswerResolvesTheUnknown(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.silent("late")
	s.release("late")
	done := s.wait(job.JobID)
	if done.Status != onejob.StatusSucceeded || done.CompletedBy != 1 || len(done.Attempts) != 1 {
		t.Errorf("the job is %+v", done.View)
	}
	s.awaitRunClosed(job.WorkflowID)
	s.wantOneRunAndRow(done.View, 1)
}

func TestDecisionThatTemporalMissedIsFoundInTheRows(t *testing.T) {
	s := newSystem(t)
	s.startWorker(looksSoon)
	job := s.silent("missed", func(r *onejob.Request) { r.ListenFor = onejob.Duration(time.Hour) })
	s.eventually("the run knows", func() bool { return s.query(job.WorkflowID).Status == onejob.StatusUnknown })
	cutOff := starter.New(starter.Options{Store: s.store, Temporal: dialTemporal(t, "127.0.0.1:1"), Catalog: s.config.Catalog(), TaskQueue: s.queue, Logger: quiet})
	if err := cutOff.CancelAttempt(t.Context(), job.JobID, 1, operator); err != nil {
		t.Fatal(err)
	}
	if done := s.wait(job.JobID); done.Status != onejob.StatusSucceeded || done.CompletedBy != 2 {
		t.Errorf("the job is %+v, want the fallback's result", done.View)
	}
	s.release("missed")
}

func TestCancelledAttemptLetsTheFallbackWin(t *testing.T) {
	for _, way := range []struct {
		name   string
		cancel func(s *system, job onejob.Submitted) error
	}{
		{"sdk", func(s *system, job onejob.Submitted) error {
			return s.starter.CancelAttempt(s.t.Context(), job.JobID, 1, operator)
		}},
		{"signal", func(s *system, job onejob.Submitted) error {
			return s.temporal.SignalWorkflow(s.t.Context(), job.WorkflowID, "", workflows.SignalCancelAttempt,
				json.RawMessage(`{"attempt": 1, "reason": "stuck", "by": "ana"}`))
		}},
		{"update", func(s *system, job onejob.Submitted) error {
			return s.update(job.WorkflowID, workflows.UpdateCancelAttempt, workflows.AttemptDecision{By: "ana", Reason: "stuck"})
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.silent("reverse")
			if err := way.cancel(s, job); err != nil {
				t.Fatal(err)
			}
			done := s.wait(job.JobID)
			if done.Status != onejob.StatusSucceeded || done.CompletedBy != 2 || done.Attempts[0].State != onejob.AttemptCancelled {
				t.Fatalf("the job is %+v, want attempt 2 to win and 1 to be cancelled", done.View)
			}
			if n := s.count(`SELECT count(*) FROM decisions WHERE decided_by = 'ana' AND attempt = 1 AND action = 'cancel-attempt'`); n != 1 {
				t.Errorf("%d decisions recorded", n)
			}
			s.release("reverse")
		})
	}
}

func TestLateResultOfACancelledAttemptIsDropped(t *testing.T) {
	s := newSystem(t)
	const words = "the words of the loser"
	called := make(chan struct{})
	s.embed(func(ctx context.Context, _ provider.Call) provider.Answer {
		close(called)
		<-ctx.Done() // the answer is on its way when the connection is closed
		return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage(`{"late": "` + words + `"}`), Usage: &provider.Usage{InputTokens: 7}}
	})
	r := s.embedded("reverse")
	r.Fallbacks = []string{"fallback"}
	job := s.submit(r)
	<-called
	if err := s.starter.CancelAttempt(t.Context(), job.JobID, 1, operator); err != nil {
		t.Fatal(err)
	}
	s.eventually("the late result is discarded", func() bool { return s.get(job.JobID).Attempts[0].Discarded })
	if done := s.wait(job.JobID); done.CompletedBy != 2 || done.Attempts[0].State != onejob.AttemptCancelled {
		t.Errorf("the job is %+v, want attempt 2 to have won and 1 to be cancelled", done.View)
	}
	s.mustHaveBooked(job.JobID, 2, 1)
	if n := s.count(`SELECT count(*) FROM ledger l JOIN attempts a ON a.id = l.attempt_id WHERE a.job_id = $1 AND a.number = 1 AND l.usage ->> 'input_tokens' = '7'`, job.JobID); n != 1 {
		t.Errorf("%d costs of the cancelled attempt are booked", n)
	}
	if n := s.count(`SELECT count(*) FROM discarded_results WHERE sha256 = sha256(convert_to($1, 'UTF8')) AND bytes = octet_length($1)`,
		`{"late": "`+words+`"}`); n != 1 {
		t.Errorf("%d discarded results of its hash and size are kept, want 1", n)
	}
	if n := s.count(`
		SELECT (SELECT count(*) FROM jobs t WHERE t::text LIKE $1) + (SELECT count(*) FROM attempts t WHERE t::text LIKE $1)
		     + (SELECT count(*) FROM decisions t WHERE t::text LIKE $1) + (SELECT count(*) FROM discarded_results t WHERE t::text LIKE $1)`,
		"%"+words+"%"); n != 0 {
		t.Errorf("%d rows hold its payload", n)
	}
}

func TestResolvedAttempt(t *testing.T) {
	t.Run("as succeeded wins like an answer", func(t *testing.T) {
		s := newSystem(t)
		s.startWorker()
		job := s.silent("found")
		result := json.RawMessage(`{"found": [1, 2.50, "\u0000"]}`)
		if err := s.starter.ResolveAttempt(t.Context(), job.JobID, 1, onejob.AttemptSucceeded, result, operator); err != nil {
			t.Fatal(err)
		}
		done := s.wait(job.JobID)
		if done.Status != onejob.StatusSucceeded || string(done.Result) != string(result) {
			t.Errorf("the job is %s with result %s", done.Status, done.Result)
		}
		s.release("found")
	})
	t.Run("as failed lets the plan go on", func(t *testing.T) {
		s := newSystem(t)
		s.startWorker()
		job := s.silent("lost")
		if err := s.update(job.WorkflowID, workflows.UpdateResolveAttempt, workflows.AttemptDecision{Attempt: 1, As: onejob.AttemptFailed, By: "ana"}); err != nil {
			t.Fatal(err)
		}
		if done := s.wait(job.JobID); done.CompletedBy != 2 || done.Attempts[0].Reason != onejob.ReasonResolved {
			t.Errorf("the job is %+v", done.View)
		}
		s.release("lost")
	})
	t.Run("is refused when there is nothing to resolve", func(t *testing.T) {
		s := newSystem(t)
		s.startWorker()
		job := s.submit(s.request("done", ""))
		s.wait(job.JobID)
		if err := s.starter.CancelAttempt(t.Context(), job.JobID, 1, operator); !errors.Is(err, onejob.ErrNothingToResolve) {
			t.Errorf("got %v", err)
		}
	})
}

func TestFallbackButtonReopensAFailedJob(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.submit(s.request("rejected", `"only": "primary", "status": 422`))
	if failed := s.wait(job.JobID); failed.Status != onejob.StatusFailed || failed.Error.Code != onejob.ReasonRejected {
		t.Fatalf("the job is %+v", failed.View)
	}
	s.awaitRunClosed(job.WorkflowID)
	if err := s.starter.StartAttempt(t.Context(), job.JobID, "fallback", operator); err != nil {
		t.Fatal(err)
	}
	done := s.wait(job.JobID)
	if done.Status != onejob.StatusSucceeded || len(done.Attempts) != 2 || done.Attempts[1].Provider != "fallback" {
		t.Errorf("the job is %+v", done.View)
	}
	if done.Version != 2 {
		t.Errorf("version %d, want one for the reopening and one for the result", done.Version)
	}
}

func TestCancelledJobEndsAndItsAttemptIsHungUp(t *testing.T) {
	s := newSystem(t)
	called, hungUp := make(chan struct{}), make(chan struct{})
	s.embed(func(ctx context.Context, _ provider.Call) provider.Answer {
		close(called)
		<-ctx.Done()
		close(hungUp)
		return provider.Answer{Certainty: provider.Unknown}
	})
	job := s.submit(s.embedded("unwanted"))
	<-called
	if err := s.temporal.SignalWorkflow(t.Context(), job.WorkflowID, "", workflows.SignalCancelJob, workflows.JobDecision{By: "ana"}); err != nil {
		t.Fatal(err)
	}
	done := s.wait(job.JobID)
	if done.Status != onejob.StatusCancelled || done.Attempts[0].State != onejob.AttemptCancelled {
		t.Errorf("the job is %+v", done.View)
	}
	var outcome onejob.Outcome
	if err := s.temporal.GetWorkflow(t.Context(), job.WorkflowID, "").Get(t.Context(), &outcome); err != nil || outcome.Status != onejob.StatusCancelled {
		t.Errorf("the run returned %+v, %v", outcome, err)
	}
	select {
	case <-hungUp:
	case <-time.After(patience):
		t.Error("the provider is still listened to")
	}
}

func TestCancellingTheWorkflowCancelsTheJob(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.silent("web-ui")
	if err := s.temporal.CancelWorkflow(t.Context(), job.WorkflowID, ""); err != nil {
		t.Fatal(err)
	}
	if done := s.wait(job.JobID); done.Status != onejob.StatusCancelled {
		t.Errorf("the job is %s", done.Status)
	}
	s.release("web-ui")
}

func TestSignalThatCannotBeRecordedHoldsNothingUp(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	job := s.silent("nonsense")
	for _, payload := range []string{`{"by": " "}`, `{"by": "ana", "reason": "\u0000"}`, `{"by": "ana", "attempt": 7}`, `[]`, `"text"`} {
		s.signal(job.WorkflowID, workflows.SignalCancelAttempt, payload)
	}
	s.release("nonsense")
	s.wantOneSuccess(job)
}
