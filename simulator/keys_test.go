package simulator_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/simulator"
)

func TestKeysAreHonouredByProviderAndByRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{HonourKeys: true, Plan: simulator.Plan{HonourKeys: map[string]bool{"careless": false}}})
	for path, c := range map[string]struct {
		directives string
		executions int
	}{
		"/careful":        {`{}`, 1},
		"/careless":       {`{}`, 2},
		"/careful/asked":  {`{"honour_key":false}`, 2},
		"/careless/asked": {`{"honour_key":true}`, 1},
	} {
		for range 2 {
			r.mustDo(request{job: path, attempt: 1, key: "k", path: path, body: simulate(c.directives)})
		}
		r.mustCount(simulator.Subject{Job: path}, 2, c.executions)
	}
}

func TestAcceptedCallIsReplayedUnderItsKey(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{HonourKeys: true})
	again := request{job: "j", attempt: 1, key: "k", body: simulate(`{"accept":true,"run_until":"gate"}`)}
	if first, second := r.mustAccept(again), r.mustAccept(again); first != second {
		t.Errorf("%s, %s", first, second)
	}
	r.mustRelease("gate")
	r.mustAwaitExecution("j")
	r.mustCount(simulator.Subject{Job: "j"}, 2, 1)
}

func TestKeyIsForgottenOnCommand(t *testing.T) {
	t.Parallel()
	for key, forgotten := range map[string]int{"": 2, "k": 1} {
		r := newRig(t, simulator.Options{HonourKeys: true})
		again := request{job: "j", attempt: 1, key: "k", body: `{}`}
		other := request{job: "other", attempt: 1, key: "other", body: `{}`}
		r.mustDo(again)
		r.mustDo(other)
		if count, err := r.ForgetKey(t.Context(), key); err != nil || count != forgotten {
			t.Errorf("%q: %d, want %d, error %v", key, count, forgotten, err)
		}
		r.mustDo(again)
		r.mustDo(other)
		r.mustCount(simulator.Subject{Job: "j"}, 2, 2)
		r.mustCount(simulator.Subject{Job: "other"}, 2, forgotten)
	}
}

func TestOldestKeyIsForgottenBeyondTheMost(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{HonourKeys: true, MostKeys: 2})
	for _, key := range []string{"a", "b", "c"} {
		r.mustDo(request{job: "j", attempt: 1, key: key, body: `{}`})
	}
	for key, replayed := range map[string]string{"b": "true", "c": "true"} {
		if got := r.mustDo(request{job: "j", attempt: 1, key: key, body: `{}`}); got.header.Get("Idempotent-Replayed") != replayed {
			t.Errorf("%s: %+v", key, got)
		}
	}
	if got := r.mustDo(request{job: "j", attempt: 1, key: "a", body: `{}`}); got.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("a: %+v", got)
	}
}

func TestDirectivesMayStandInTheHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for body, want := range map[string]int{`{}`: http.StatusTeapot, simulate(`{"status":410}`): http.StatusGone} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/run", strings.NewReader(body))
		req.Header.Set("Onejob-Simulate", `{"status":418}`)
		resp, err := r.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", body, resp.StatusCode, want)
		}
	}
}
