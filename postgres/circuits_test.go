package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// lapse lets the time for which the provider's circuit is open pass.
func (r rig) lapse(t testing.TB, provider string) {
	t.Helper()
	if _, err := r.hand.Exec(t.Context(), `UPDATE circuits SET open_until = clock_timestamp(), try_until = NULL WHERE provider = $1`, provider); err != nil {
		t.Fatal(err)
	}
}

func (r rig) circuit(t testing.TB, provider string) (postgres.Circuit, bool) {
	t.Helper()
	circuits, err := r.store.Circuits(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range circuits {
		if c.Provider == provider {
			return c, true
		}
	}
	return postgres.Circuit{}, false
}

func (r rig) openCircuit(t testing.TB, provider string) {
	t.Helper()
	if left, err := r.store.OpenCircuitUnlessThere(t.Context(), provider, "not served", time.Minute); err != nil || left <= 0 {
		t.Fatalf("open for %v, %v", left, err)
	}
}

func TestOneAttemptAtATimeTriesAProviderThatWasLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.openCircuit(t, "primary")
	if left, err := r.store.TryProviderIfDue(t.Context(), "primary", time.Minute); err != nil || left < 59*time.Second {
		t.Errorf("an open circuit may be tried in %v, %v", left, err)
	}
	r.lapse(t, "primary")
	var may atomic.Int32
	try := func() {
		left, err := r.store.TryProviderIfDue(t.Context(), "primary", time.Minute)
		if err != nil {
			t.Error(err)
		}
		if left <= 0 {
			may.Add(1)
		}
	}
	together(try, try, try, try, try, try, try, try)
	if may.Load() != 1 {
		t.Errorf("%d of 8 may try", may.Load())
	}
}

func TestCircuitThatOpensAgainStaysOpenTwiceAsLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.openCircuit(t, "primary")
	reopen := func() time.Duration {
		t.Helper()
		left, err := r.store.ReopenCircuitIfDue(t.Context(), "primary", "still not", time.Minute, 5*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return left.Round(time.Minute)
	}
	if left := reopen(); left != 0 {
		t.Errorf("a circuit that is open was opened again, for %v", left)
	}
	for _, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 5 * time.Minute} {
		r.lapse(t, "primary")
		if left := reopen(); left != want {
			t.Errorf("open for %v, want %v", left, want)
		}
	}
	if c, _ := r.circuit(t, "primary"); c.Times != 4 || c.Reason != "still not" {
		t.Errorf("the circuit is %+v", c)
	}
	if err := r.store.CloseCircuitUnlessPaused(t.Context(), "primary"); err != nil {
		t.Fatal(err)
	}
	if left := reopen(); left != 0 {
		t.Errorf("a closed circuit was opened again, for %v", left)
	}
}

func TestPausedProviderIsNotResumedByACall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.store.PauseProvider(t.Context(), "primary", time.Hour, "ana", "they migrate"))
	must(r.store.CloseCircuitUnlessPaused(t.Context(), "primary"))
	if c, ok := r.circuit(t, "primary"); !ok || c.PausedBy != "ana" || c.Reason != "they migrate" || c.OpenFor < 59*time.Minute {
		t.Errorf("the circuit is %+v", c)
	}
	must(r.store.ResumeProvider(t.Context(), "primary"))
	if c, ok := r.circuit(t, "primary"); ok {
		t.Errorf("after the resume it is %+v", c)
	}
	if err := r.store.ResumeProvider(t.Context(), "primary"); !errors.Is(err, onejob.ErrNothingToResolve) {
		t.Errorf("a second resume: %v", err)
	}
}

func TestProviderLoadsCountWhatHasNoOutcome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sending(t)
	r.unknown(t)
	a := r.sending(t)
	r.record(t, a, a.success(`1`))
	loads, err := r.store.ProviderLoads(context.WithoutCancel(t.Context()))
	if err != nil || len(loads) != 1 || loads[0] != (postgres.ProviderLoad{Provider: "primary", Underway: 2, Unknown: 1}) {
		t.Errorf("%+v, %v", loads, err)
	}
}
