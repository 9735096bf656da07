package postgres_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func TestCompletionFillsTheSlotOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.answered(t)
	for range 2 {
		c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1)
		if err != nil || !c.Won || c.Raced || c.Progress.Status != onejob.StatusSucceeded || c.Progress.CompletedBy != 1 || c.Progress.Version != 1 {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if result, err := r.result(t.Context(), a.job.ID); err != nil || string(result) != `{"total": "12.50"}` {
		t.Errorf("the result is %s, %v", result, err)
	}
}

func TestAttemptWithoutAResultCompletesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, a := range []attempt{r.started(t), r.unknown(t), r.failing(t), r.failed(t)} {
		before := r.progress(t, a.job.ID)
		c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1)
		if err != nil || c.Won || c.Raced || c.Progress.Status != before.Status || c.Progress.Version != before.Version {
			t.Errorf("%s: %+v, %v", before.Attempts[0].State, c, err)
		}
	}
}

func TestFailureTellsTheLastAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.failing(t)
	for range 2 {
		p, err := r.store.FailJobIfNothingLives(t.Context(), a.job.ID, 0)
		want := onejob.JobError{Code: onejob.ReasonRejected, Message: "attempt 1 on primary failed: no"}
		if err != nil || p.Status != onejob.StatusFailed || p.Error == nil || *p.Error != want {
			t.Fatalf("%+v %+v, %v", p, p.Error, err)
		}
	}
}

func TestJobFailsOnlyAtTheVersionAndWithNothingAlive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	requested := r.failing(t)
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), requested.job.ID, "second", decision()); err != nil {
		t.Fatal(err)
	}
	reopened := r.failed(t)
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), reopened.job.ID, "primary", decision()); err != nil {
		t.Fatal(err)
	}
	for why, job := range map[string]string{
		"accepted": r.accepted(t).ID, "starting": r.started(t).job.ID, "unknown": r.unknown(t).job.ID, "undecided": r.answered(t).job.ID,
		"succeeded": r.succeeded(t).job.ID, "cancelled": r.cancelled(t).ID, "requested": requested.job.ID, "reopened": reopened.job.ID,
	} {
		if p, err := r.store.FailJobIfNothingLives(t.Context(), job, 0); err != nil || p.Status == onejob.StatusFailed {
			t.Errorf("%s: %+v, %v", why, p, err)
		}
	}
}

func TestRequestedAttemptIsGrantedOrRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	request := func(job string) (onejob.Progress, error) {
		return r.store.RequestAttemptIfNoneLives(t.Context(), job, "second", decision())
	}
	for want, job := range map[*onejob.Error][]string{
		onejob.ErrAttemptUnresolved: {r.accepted(t).ID, r.started(t).job.ID, r.unknown(t).job.ID, r.answered(t).job.ID},
		onejob.ErrJobClosed:         {r.succeeded(t).job.ID, r.cancelled(t).ID},
	} {
		for _, id := range job {
			_, err := request(id)
			mustBe(t, err, want)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM decisions WHERE action = 'start-attempt' AND refused IS NULL`); n != 0 {
		t.Errorf("%d refused requests were recorded", n)
	}
	failed := r.failed(t).job.ID
	if p, err := request(failed); err != nil || p.Status != onejob.StatusRunning || p.Version != 1 || p.Requested != "second" || p.Error != nil {
		t.Errorf("reopened: %+v, %v", p, err)
	}
	_, err := request(failed)
	mustBe(t, err, onejob.ErrAttemptUnresolved)
	running := r.failing(t).job.ID
	if p, err := request(running); err != nil || p.Version != 0 || p.Requested != "second" {
		t.Errorf("between two attempts: %+v, %v", p, err)
	}
}

func TestAttemptIsCancelledOrResolvedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	result := json.RawMessage(`"found out"`)
	decide := map[onejob.AttemptState]func(job string, n int) (onejob.Progress, error){
		onejob.AttemptCancelled: func(job string, n int) (onejob.Progress, error) {
			return r.store.CancelAttemptIfLive(t.Context(), job, n, decision())
		},
		onejob.AttemptFailed: func(job string, n int) (onejob.Progress, error) {
			return r.store.ResolveAttemptIfLive(t.Context(), job, n, onejob.AttemptFailed, nil, decision())
		},
		onejob.AttemptSucceeded: func(job string, n int) (onejob.Progress, error) {
			return r.store.ResolveAttemptIfLive(t.Context(), job, n, onejob.AttemptSucceeded, result, decision())
		},
	}
	for state, do := range decide {
		for number, a := range map[int]attempt{0: r.unknown(t), 1: r.started(t)} {
			p, err := do(a.job.ID, number)
			if err != nil || p.Status != onejob.StatusRunning || p.Attempts[0].State != state {
				t.Errorf("%s: %+v, %v", state, p, err)
			}
			_, err = do(a.job.ID, number)
			mustBe(t, err, onejob.ErrNothingToResolve)
			if n := r.count(t, `SELECT count(*) FROM decisions WHERE job_id = $1 AND attempt = 1 AND decided_by = 'ops' AND reason = 'asked the provider'`, a.job.ID); n != 1 {
				t.Errorf("%s: %d decisions", state, n)
			}
		}
		_, err := do(r.answered(t).job.ID, 0)
		mustBe(t, err, onejob.ErrNothingToResolve)
		_, err = do(r.accepted(t).ID, 0)
		mustBe(t, err, onejob.ErrNothingToResolve)
		_, err = do(r.failing(t).job.ID, 1)
		mustBe(t, err, onejob.ErrNothingToResolve)
	}
	r.mustBeConsistent(t)
}

func TestCancelledJobGivesUpWhatLives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hedging := r.unknown(t, hedged)
	answered := r.start(t, hedging.job, 2, 1)
	r.record(t, answered, answered.success(`"needle"`))
	p, err := r.store.CancelJobIfOpen(t.Context(), hedging.job.ID, decision())
	if err != nil || p.Status != onejob.StatusCancelled || p.Version != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if p.Attempts[0].State != onejob.AttemptCancelled || !p.Attempts[1].Discarded {
		t.Errorf("%+v", p.Attempts)
	}
	for _, job := range []string{hedging.job.ID, r.succeeded(t).job.ID, r.failed(t).job.ID} {
		_, err := r.store.CancelJobIfOpen(t.Context(), job, decision())
		mustBe(t, err, onejob.ErrJobClosed)
	}
	r.mustBeConsistent(t)
}

func TestReconcilersShareTheOpenJobsThatNobodyWatched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.succeeded(t)
	r.failed(t)
	r.cancelled(t)
	open := map[string]bool{r.accepted(t).ID: false, r.started(t).job.ID: false, r.unknown(t).job.ID: false, r.accepted(t).ID: false}
	if jobs, err := r.store.ClaimForReconcile(t.Context(), time.Minute, 10); err != nil || len(jobs) != 0 {
		t.Fatalf("new jobs are watched by those who submit them: %d, %v", len(jobs), err)
	}
	if _, err := r.hand.Exec(t.Context(), `UPDATE jobs SET reconcile_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 2, 5} {
		jobs, err := r.store.ClaimForReconcile(t.Context(), time.Minute, limit)
		if err != nil || len(jobs) > limit {
			t.Fatalf("%d of at most %d, %v", len(jobs), limit, err)
		}
		for _, job := range jobs {
			if claimed, ok := open[job.ID]; !ok || claimed {
				t.Errorf("job %s is closed or was claimed twice", job.ID)
			}
			open[job.ID] = true
		}
	}
	for id, claimed := range open {
		if !claimed {
			t.Errorf("nobody has job %s", id)
		}
	}
	if _, err := r.store.ClaimForReconcile(t.Context(), 0, 0); err != nil {
		t.Error(err)
	}
}

// A reset of the workflow tells its decisions again, when other things have become
// possible.
func TestRefusedDecisionStaysRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.unknown(t)
	who := postgres.Decision{By: "ops", Token: uuid.NewString()}
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", who); !errors.Is(err, onejob.ErrAttemptUnresolved) {
		t.Fatalf("got %v", err)
	}
	if _, err := r.store.CancelAttemptIfLive(t.Context(), a.job.ID, 1, postgres.Decision{By: "ops", Token: uuid.NewString()}); err != nil {
		t.Fatal(err)
	}
	p, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", who)
	if !errors.Is(err, onejob.ErrAttemptUnresolved) || p.Requested != "" {
		t.Errorf("told again it got %v and asked for %q", err, p.Requested)
	}
}

func TestTokenStandsForOneDecision(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, a, other := t.Context(), r.unknown(t), r.unknown(t)
	who := postgres.Decision{By: "ops", Token: uuid.NewString()}
	resolve := func(job string, number int, as onejob.AttemptState, result json.RawMessage) error {
		_, err := r.store.ResolveAttemptIfLive(ctx, job, number, as, result, who)
		return err
	}
	for range 2 {
		mustBe(t, resolve(a.job.ID, 1, onejob.AttemptFailed, nil), nil)
	}
	mustBe(t, resolve(a.job.ID, 0, onejob.AttemptFailed, nil), nil)
	_, cancelled := r.store.CancelAttemptIfLive(ctx, a.job.ID, 1, who)
	_, closed := r.store.CancelJobIfOpen(ctx, a.job.ID, who)
	_, asked := r.store.RequestAttemptIfNoneLives(ctx, a.job.ID, "second", who)
	for what, err := range map[string]error{
		"the other outcome": resolve(a.job.ID, 1, onejob.AttemptSucceeded, json.RawMessage(`1`)),
		"another attempt":   resolve(a.job.ID, 2, onejob.AttemptFailed, nil),
		"another job":       resolve(other.job.ID, 1, onejob.AttemptFailed, nil),
		"a cancellation":    cancelled,
		"the end of a job":  closed,
		"a new attempt":     asked,
	} {
		if !errors.Is(err, onejob.ErrConflict) {
			t.Errorf("the token of another decision for %s: %v", what, err)
		}
	}
	r.mustBeConsistent(t)
}
