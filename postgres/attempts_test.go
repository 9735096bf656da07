package postgres_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func (r rig) mustNotStart(t *testing.T, why string, s postgres.Start) {
	t.Helper()
	if started, err := r.store.StartAttemptIfNoneLives(t.Context(), s); err != nil || started.Mine {
		t.Errorf("%s: %+v, %v", why, started, err)
	}
}

func TestAttemptStartsOnlyWhereNothingLives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustNotStart(t, "beside a starting one", startOf(r.started(t).job, 2, 0))
	r.mustNotStart(t, "beside an unknown one", startOf(r.unknown(t).job, 2, 0))
	r.mustNotStart(t, "beside an undecided one", startOf(r.answered(t).job, 2, 0))
	r.mustNotStart(t, "its number is taken", startOf(r.failing(t).job, 1, 0))
	r.mustNotStart(t, "the job succeeded", startOf(r.succeeded(t).job, 2, 0))
	r.mustNotStart(t, "the job failed", startOf(r.failed(t).job, 2, 0))
	r.mustNotStart(t, "the job is cancelled", startOf(r.cancelled(t), 1, 0))
	requested := r.failing(t)
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), requested.job.ID, "second", decision()); err != nil {
		t.Fatal(err)
	}
	r.mustNotStart(t, "another provider was asked for", startOf(requested.job, 2, 0))
	if p := r.progress(t, requested.job.ID); p.Requested != "second" || len(p.Attempts) != 1 {
		t.Errorf("a start that was refused changed the job: %+v", p)
	}
	r.mustBeConsistent(t)
}

func TestStartThatFindsItsNumberTakenChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.failing(t)
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "primary", decision()); err != nil {
		t.Fatal(err)
	}
	fenced := postgres.Adoption{JobID: a.job.ID, WorkflowID: a.job.WorkflowID, Fence: &postgres.Fence{Number: 2, Provider: "primary"}}
	if _, err := r.store.AdoptAttempts(t.Context(), fenced); err != nil {
		t.Fatal(err)
	}
	r.mustNotStart(t, "its number is fenced", startOf(a.job, 2, 0))
	if p := r.progress(t, a.job.ID); p.Requested != "primary" {
		t.Errorf("the attempt that somebody asked for is forgotten: %+v", p)
	}
	accepted := r.accepted(t)
	if _, err := r.store.AdoptAttempts(t.Context(), postgres.Adoption{JobID: accepted.ID, WorkflowID: accepted.WorkflowID, Fence: &postgres.Fence{Number: 1, Provider: "primary"}}); err != nil {
		t.Fatal(err)
	}
	r.mustNotStart(t, "its number is fenced", startOf(accepted, 1, 0))
	if p := r.progress(t, accepted.ID); p.Status != onejob.StatusAccepted {
		t.Errorf("the job is %s without an attempt", p.Status)
	}
}

func TestStartUnderAnotherWorkflowIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := startOf(r.accepted(t), 1, 0)
	s.WorkflowID = "job/somebody/else"
	_, err := r.store.StartAttemptIfNoneLives(t.Context(), s)
	mustBe(t, err, onejob.ErrIdentityMismatch)
	_, err = r.store.AdoptAttempts(t.Context(), postgres.Adoption{JobID: s.JobID, WorkflowID: s.WorkflowID, Fence: &postgres.Fence{Number: 1, Provider: "primary"}})
	mustBe(t, err, onejob.ErrIdentityMismatch)
	if p := r.progress(t, s.JobID); p.Status != onejob.StatusAccepted || len(p.Attempts) != 0 {
		t.Errorf("it changed the job: %+v", p)
	}
}

func TestHedgeStartsBesideASilentAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, first := range []attempt{r.started(t, hedged), r.unknown(t, hedged)} {
		r.start(t, first.job, 2, 1)
		r.mustNotStart(t, "a second hedge", startOf(first.job, 3, 1))
	}
	r.mustBeConsistent(t)
}

func TestUnknownAttemptMakesItsJobUnknownUntilItIsResolved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.unknown(t)
	if p := r.progress(t, a.job.ID); p.Status != onejob.StatusUnknown || p.Attempts[0].Reason != onejob.ReasonTimeout {
		t.Fatalf("%+v", p)
	}
	again := postgres.Silence{Reason: onejob.ReasonListenEnded, Detail: "silence", Reference: "ref-1", Usage: json.RawMessage(`{"input_tokens":1}`)}
	still, err := r.store.MarkUnknownIfLive(t.Context(), a.job.ID, 1, again)
	if err != nil || still.Changed || still.Attempt.Reason != onejob.ReasonListenEnded || still.Attempt.Detail != "silence" {
		t.Fatalf("%+v, %v", still, err)
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1 AND provider_ref = 'ref-1' AND usage->>'input_tokens' = '1'`, a.job.ID); n != 1 {
		t.Error("reference and usage were not kept")
	}
	recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.failure())
	if err != nil || !recorded.WasUnknown || recorded.Late {
		t.Fatalf("%+v, %v", recorded, err)
	}
	if p := r.progress(t, a.job.ID); p.Status != onejob.StatusRunning {
		t.Errorf("the job stays %s", p.Status)
	}
	late, err := r.store.MarkUnknownIfLive(t.Context(), a.job.ID, 1, again)
	if err != nil || late.Changed || late.Attempt.State != onejob.AttemptFailed {
		t.Errorf("an outcome became unknown: %+v, %v", late, err)
	}
	if counts, err := r.store.CountUnknown(t.Context()); err != nil || len(counts) != 0 {
		t.Errorf("counted %v, %v", counts, err)
	}
}

func TestRunningAttemptKeepsItsReference(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t)
	for _, reference := range []string{"ref-1", "ref-2"} {
		if _, err := r.store.MarkRunningIfStarting(t.Context(), a.job.ID, 1, reference); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1 AND state = 'running' AND provider_ref = 'ref-1'`, a.job.ID); n != 1 {
		t.Error("the first reference is gone")
	}
	r.record(t, a, a.failure())
	if _, err := r.store.MarkRunningIfStarting(t.Context(), a.job.ID, 1, "ref-3"); err != nil {
		t.Fatal(err)
	}
	if p := r.progress(t, a.job.ID); p.Attempts[0].State != onejob.AttemptFailed {
		t.Errorf("an outcome was undone: %+v", p)
	}
}

func TestReferenceThatComesAfterTheSilenceIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.unknown(t)
	late, err := r.store.MarkRunningIfStarting(t.Context(), a.job.ID, 1, "ref-1")
	if err != nil || !late {
		t.Errorf("late %v, %v", late, err)
	}
	if sought, err := r.store.SoughtAttempt(t.Context(), a.job.ID, 1); err != nil || sought.State != onejob.AttemptUnknown || sought.Reference != "ref-1" {
		t.Errorf("%+v, %v", sought, err)
	}
}

func TestLostConnectionHoldsNoPlaceAtALimitedProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for reason, busy := range map[onejob.Reason]bool{onejob.ReasonTimeout: true, onejob.ReasonConnectionLost: false} {
		name := string(reason)
		onIt := func(q *onejob.Request) { q.Provider, q.Fallbacks = "primary", nil }
		first := startOf(r.accepted(t, onIt), 1, 0)
		first.Provider, first.MostAtOnce = "primary", 1
		if _, err := r.store.StartAttemptIfNoneLives(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if _, err := r.store.MarkUnknownIfLive(t.Context(), first.JobID, 1, postgres.Silence{Reason: reason}); err != nil {
			t.Fatal(err)
		}
		second := startOf(r.accepted(t, onIt), 1, 0)
		second.MostAtOnce = 1
		if started, err := r.store.StartAttemptIfNoneLives(t.Context(), second); err != nil || started.Busy != busy || started.Mine == busy {
			t.Errorf("beside one that is unknown (%s): %+v, %v", name, started, err)
		}
		for _, id := range []string{first.JobID, second.JobID} {
			if _, err := r.store.CancelJobIfOpen(t.Context(), id, decision()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestOutcomeIsRecordedOnceWithAllThatItSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t)
	o := postgres.Outcome{State: onejob.AttemptFailed, Reason: onejob.ReasonRefused, Detail: "busy", Retryable: true,
		RetryAfter: 1500 * time.Millisecond, Reference: "ref-1", Usage: json.RawMessage(`{"input_tokens": 3}`), RecordedBy: a.token}
	r.record(t, a, o)
	got := r.progress(t, a.job.ID).Attempts[0]
	want := onejob.Attempt{Number: 1, Provider: "primary", State: o.State, Reason: o.Reason, Detail: o.Detail, Retryable: true,
		RetryAfter: onejob.Duration(o.RetryAfter), StartedAt: got.StartedAt, FinishedAt: got.FinishedAt}
	if got != want || got.FinishedAt.Before(got.StartedAt) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	other := a.success(`1`)
	other.RecordedBy = uuid.NewString()
	recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, other)
	if err != nil || !recorded.Late || recorded.Attempt.State != onejob.AttemptFailed || !recorded.Attempt.Discarded {
		t.Errorf("another's outcome: %+v, %v", recorded, err)
	}
}

func TestLateResultIsDiscardedOnceAndNamesWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for why, a := range map[onejob.Reason]attempt{
		onejob.ReasonLateResult: r.lateAnswered(t),
		onejob.ReasonSlotTaken:  r.outrun(t),
		onejob.ReasonJobClosed:  r.closedUnder(t),
	} {
		for range 2 {
			recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, a.number, a.success(`{"late": true}`))
			if err != nil || !recorded.Attempt.Discarded {
				t.Errorf("%s: %+v, %v", why, recorded, err)
			}
		}
		if n := r.count(t, `SELECT count(*) FROM discarded_results WHERE job_id = $1 AND reason = $2`, a.job.ID, string(why)); n != 1 {
			t.Errorf("%s: %d traces", why, n)
		}
	}
	r.mustBeConsistent(t)
}

// outrun returns the attempt in the second lane of a job that the first one completed.
func (r rig) outrun(t *testing.T) attempt {
	t.Helper()
	first := r.answered(t, hedged)
	second := r.start(t, first.job, 2, 1)
	if c, err := r.store.CompleteJobIfOpen(t.Context(), first.job.ID, 1); err != nil || !c.Won {
		t.Fatalf("%+v, %v", c, err)
	}
	return second
}

// closedUnder returns an attempt whose undecided result went with its cancelled job.
func (r rig) closedUnder(t *testing.T) attempt {
	t.Helper()
	a := r.answered(t)
	if _, err := r.store.CancelJobIfOpen(t.Context(), a.job.ID, decision()); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLateAnswerOfAnAttemptThatAnOperatorResolved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	won, undecided := r.unknown(t), r.unknown(t)
	for _, a := range []attempt{won, undecided} {
		if _, err := r.store.ResolveAttemptIfLive(t.Context(), a.job.ID, 1, onejob.AttemptSucceeded, json.RawMessage(`"operator's"`), decision()); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := r.store.CompleteJobIfOpen(t.Context(), won.job.ID, 1); err != nil || !c.Won {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, a := range []attempt{won, undecided} {
		recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.success(`"provider's"`))
		if err != nil || !recorded.Late || recorded.Attempt.State != onejob.AttemptSucceeded || recorded.Attempt.Discarded {
			t.Fatalf("%+v, %v", recorded, err)
		}
		if n := r.count(t, `SELECT count(*) FROM discarded_results WHERE job_id = $1 AND reason = 'late_result' AND winner_attempt_id IS NULL`, a.job.ID); n != 1 {
			t.Errorf("%d traces of the provider's answer", n)
		}
	}
	if result, err := r.result(t.Context(), won.job.ID); err != nil || string(result) != `"operator's"` {
		t.Errorf("the result is %s, %v", result, err)
	}
	if c, err := r.store.CompleteJobIfOpen(t.Context(), undecided.job.ID, 1); err != nil || !c.Won {
		t.Errorf("the operator's result does not win: %+v, %v", c, err)
	}
	r.mustBeConsistent(t)
}

func TestAdoptionFencesAndMarksWhatNobodyListensTo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t, hedged)
	b := r.start(t, a.job, 2, 1)
	q := postgres.Adoption{JobID: a.job.ID, WorkflowID: a.job.WorkflowID, Listening: []int{b.number}, Fence: &postgres.Fence{Number: 3, Provider: "second"}}
	for range 2 {
		p, err := r.store.AdoptAttempts(t.Context(), q)
		if err != nil || p.Status != onejob.StatusUnknown || len(p.Attempts) != 3 {
			t.Fatalf("%+v, %v", p, err)
		}
		if lost := p.Attempts[0]; lost.State != onejob.AttemptUnknown || lost.Reason != onejob.ReasonWorkerLost {
			t.Errorf("nobody listens to %+v", lost)
		}
		if heard := p.Attempts[1]; heard.State != onejob.AttemptStarting {
			t.Errorf("somebody listens to %+v", heard)
		}
		if fenced := p.Attempts[2]; fenced.State != onejob.AttemptFailed || fenced.Reason != onejob.ReasonNeverStarted || !fenced.Retryable {
			t.Errorf("fenced: %+v", fenced)
		}
	}
	r.mustNotStart(t, "its number is fenced", startOf(a.job, 3, 0))
	q.Fence = &postgres.Fence{Number: 2, Lane: 1, Provider: "primary"}
	if p, err := r.store.AdoptAttempts(t.Context(), q); err != nil || p.Attempts[1].State != onejob.AttemptStarting {
		t.Errorf("an attempt that has a row was fenced: %+v, %v", p, err)
	}
	r.mustBeConsistent(t)
}
