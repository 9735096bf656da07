package postgres_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// askable inserts a new job whose first attempt is unknown and has kept what it sent.
func (r rig) askable(t testing.TB) attempt {
	t.Helper()
	a := r.sending(t)
	if _, err := r.store.MarkUnknownIfLive(t.Context(), a.job.ID, 1, postgres.Silence{Reason: onejob.ReasonTimeout}); err != nil {
		t.Fatal(err)
	}
	return a
}

// sending inserts a new job whose first attempt is under way and has kept what it sends.
func (r rig) sending(t testing.TB) attempt {
	t.Helper()
	job := r.accepted(t)
	s := startOf(job, 1, 0)
	s.Request = func(kind string, input json.RawMessage) []byte { return append([]byte(kind), input...) }
	if started, err := r.store.StartAttemptIfNoneLives(t.Context(), s); err != nil || !started.Mine {
		t.Fatalf("start: %+v, %v", started, err)
	}
	return attempt{job: job, number: 1, token: s.Execution}
}

func TestReAsksAreCountedUpToTheirMost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.askable(t)
	var mu sync.Mutex
	var bodies []string
	calls := make([]func(), 12)
	for i := range calls {
		calls[i] = func() {
			body, err := r.store.CountReAskIfUnknown(t.Context(), a.job.ID, 1, time.Hour, 3)
			if err != nil {
				t.Error(err)
			}
			if body != nil {
				mu.Lock()
				defer mu.Unlock()
				bodies = append(bodies, string(body))
			}
		}
	}
	together(calls...)
	if want := slices.Repeat([]string{`invoice{"page": 1}`}, 3); !slices.Equal(bodies, want) {
		t.Errorf("permitted %q, want %q", bodies, want)
	}
	if sought, err := r.store.SoughtAttempt(t.Context(), a.job.ID, 1); err != nil || sought.ReAsks != 3 || !sought.Kept || sought.Kind != "invoice" {
		t.Errorf("%+v, %v", sought, err)
	}
}

func TestReAskIsPermittedOnlyWhileItIsTheSameAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for why, c := range map[string]struct {
		attempt attempt
		window  time.Duration
	}{
		"the provider has forgotten the key": {r.askable(t), time.Nanosecond},
		"nothing was kept":                   {r.unknown(t), time.Hour},
		"it is under way":                    {r.sending(t), time.Hour},
		"it has its outcome": {func() attempt {
			a := r.askable(t)
			r.record(t, a, a.success(`1`))
			return a
		}(), time.Hour},
	} {
		if body, err := r.store.CountReAskIfUnknown(t.Context(), c.attempt.job.ID, 1, c.window, 3); err != nil || body != nil {
			t.Errorf("%s: permitted %q, %v", why, body, err)
		}
	}
}

func TestWhatWasSentGoesWithTheOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.askable(t)
	r.mustRefuseTo(t, `UPDATE attempts SET request = 'other' WHERE job_id = $1`, a.job.ID)
	r.mustRefuseTo(t, `UPDATE attempts SET reasks = reasks + 2 WHERE job_id = $1`, a.job.ID)
	r.record(t, a, a.failure())
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1 AND request IS NOT NULL`, a.job.ID); n != 0 {
		t.Error("it is kept")
	}
	r.mustRefuseTo(t, `UPDATE attempts SET request = 'again' WHERE job_id = $1`, a.job.ID)
	r.mustRefuseTo(t, `UPDATE attempts SET reasks = reasks + 1 WHERE job_id = $1`, a.job.ID)
}

// mustRefuseTo fails unless the database refuses the statement.
func (r rig) mustRefuseTo(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := r.hand.Exec(t.Context(), statement, args...); err == nil {
		t.Errorf("the database took %s", statement)
	}
}

func TestProvidersWordOnACancelIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.unknown(t)
	for _, said := range []string{"unsure", "agreed", "unsure", "refused"} {
		if err := r.store.NoteProviderCancel(t.Context(), a.job.ID, 1, said); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1 AND provider_cancel = 'agreed'`, a.job.ID); n != 1 {
		t.Error("what the provider agreed to was overwritten")
	}
}

// callback is a success that the provider tells of the attempt.
func (a attempt) callback(id string) postgres.Callback {
	o := a.success(`{"told": true}`)
	o.RecordedBy = "callback/" + id
	return postgres.Callback{Provider: "primary", WebhookID: id, JobID: a.job.ID, Attempt: a.number, Outcome: &o}
}

func TestOneOfManyCallbacksResolvesTheAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.unknown(t)
	var mu sync.Mutex
	effects := map[postgres.CallbackEffect]int{}
	var calls []func()
	for _, id := range []string{"m-1", "m-1", "m-1", "m-2", "m-2"} {
		calls = append(calls, func() {
			heard, err := r.store.HearCallbackOnce(t.Context(), a.callback(id))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			effects[heard.Effect]++
		})
	}
	together(calls...)
	if effects[postgres.CallbackResolved] != 1 || effects[postgres.CallbackLate] != 1 || effects[postgres.CallbackRepeated] != 3 {
		t.Errorf("%v", effects)
	}
	if n := r.count(t, `SELECT count(*) FROM discarded_results WHERE job_id = $1`, a.job.ID); n != 1 {
		t.Errorf("%d results are logged as discarded, want that of the late callback", n)
	}
	if c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1); err != nil || !c.Won {
		t.Errorf("complete: %+v, %v", c, err)
	}
	r.mustRefuseTo(t, `DELETE FROM callbacks WHERE provider = $1`, "primary")
	r.mustRefuseTo(t, `UPDATE callbacks SET outcome = 'late' WHERE provider = $1`, "primary")
}

func TestCallbackIDUsedForAnotherAttemptHidesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		a := r.unknown(t)
		if heard, err := r.store.HearCallbackOnce(t.Context(), a.callback("m-1")); err != nil || heard.Effect != postgres.CallbackResolved {
			t.Errorf("%+v, %v", heard, err)
		}
	}
}

func TestCallbackOfAnotherProviderIsNotHeard(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.unknown(t)
	c := a.callback("m-1")
	c.Provider = "second"
	_, err := r.store.HearCallbackOnce(t.Context(), c)
	mustBe(t, err, onejob.ErrNotFound)
	c = a.callback("m-1")
	c.Outcome, c.Reference = nil, "ref-9"
	if heard, err := r.store.HearCallbackOnce(t.Context(), c); err != nil || heard.Effect != postgres.CallbackNoted || heard.WorkflowID != a.job.WorkflowID {
		t.Errorf("%+v, %v", heard, err)
	}
	if sought, err := r.store.SoughtAttempt(t.Context(), a.job.ID, 1); err != nil || sought.Reference != "ref-9" || sought.State != onejob.AttemptUnknown {
		t.Errorf("%+v, %v", sought, err)
	}
}
