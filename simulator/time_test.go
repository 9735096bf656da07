package simulator_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onejob/onejob/simulator"
)

// The clock of these tests is synctest's: seconds pass at once, and exactly.

func TestLatencyIsBeforeTheExecutionAndLateBehindIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim := simulator.New(simulator.Options{})
		began, done := time.Now(), make(chan time.Duration)
		go func() {
			body := strings.NewReader(simulate(`{"latency":"2s","late":"3s"}`))
			sim.ServeHTTP(httptest.NewRecorder(), newCall(t, "j", body))
			done <- time.Since(began)
		}()
		w := httptest.NewRecorder()
		sim.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_simulator/await?job=j&executions=1", nil))
		if executed := time.Since(began); w.Code != http.StatusOK || executed != 2*time.Second {
			t.Errorf("status %d, executed after %v", w.Code, executed)
		}
		if answered := <-done; answered != 5*time.Second {
			t.Errorf("answered after %v", answered)
		}
	})
}

func TestAcceptedCallRunsForItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim := simulator.New(simulator.Options{})
		began, w := time.Now(), httptest.NewRecorder()
		sim.ServeHTTP(w, newCall(t, "j", strings.NewReader(simulate(`{"accept":true,"latency":"1s","run_for":"2s"}`))))
		if accepted := time.Since(began); w.Code != http.StatusAccepted || accepted != time.Second {
			t.Errorf("status %d after %v", w.Code, accepted)
		}
		sim.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/_simulator/await?job=j&executions=1", nil))
		if executed := time.Since(began); executed != 3*time.Second {
			t.Errorf("executed after %v", executed)
		}
	})
}

func TestReplyWaitsForTheCallbackBeforeIt(t *testing.T) {
	t.Parallel()
	for _, directives := range []string{`{"callback":{"when":"before","hold":"gate"}}`, `{"accept":true,"callback":{"when":"before","hold":"gate"}}`} {
		synctest.Test(t, func(t *testing.T) {
			sim := simulator.New(simulator.Options{CallbackSecret: secret})
			req, aborted := newCall(t, "j", strings.NewReader(simulate(directives))), make(chan any, 1)
			req.Header.Set("Onejob-Callback", "http://127.0.0.1:1/")
			go func() {
				defer func() { aborted <- recover() }()
				sim.ServeHTTP(httptest.NewRecorder(), req)
			}()
			synctest.Wait()
			sim.Reset() // before the gate was released
			if end := <-aborted; end != http.ErrAbortHandler {
				t.Errorf("%s: answered before the callback", directives)
			}
		})
	}
}

func TestClientThatLeavesEndsWhatItHeld(t *testing.T) {
	t.Parallel()
	for _, directives := range []string{`{"hold":"gate"}`, `{"silence":true}`, `{"late":"1h"}`} {
		synctest.Test(t, func(t *testing.T) {
			sim := simulator.New(simulator.Options{})
			ctx, leave := context.WithCancel(t.Context())
			began, aborted := time.Now(), make(chan any)
			go func() {
				defer func() { aborted <- recover() }()
				sim.ServeHTTP(httptest.NewRecorder(), newCall(t, "j", strings.NewReader(simulate(directives))).WithContext(ctx))
			}()
			synctest.Wait()
			leave()
			if end := <-aborted; end != http.ErrAbortHandler || time.Since(began) != 0 {
				t.Errorf("%s: ended by %v after %v", directives, end, time.Since(began))
			}
		})
	}
}

func newCall(t *testing.T, job string, body *strings.Reader) *http.Request {
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/run", body)
	req.Header.Set("Onejob-Job", job)
	return req
}

func TestAwaitIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, w := time.Now(), httptest.NewRecorder()
		query := "/_simulator/await?job=j&requests=1&timeout=100h"
		simulator.New(simulator.Options{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, query, nil))
		if waited := time.Since(began); w.Code != http.StatusGatewayTimeout || waited != time.Minute {
			t.Errorf("status %d after %v", w.Code, waited)
		}
	})
}

var plan = simulator.Plan{
	Seed: 7, LostReply: 0.05, Late: 0.1, LateBy: simulator.Duration(time.Second),
	Status: map[int]float64{500: 0.05, 503: 0.2}, Latency: simulator.Duration(time.Millisecond),
}

func TestPlanDrawsTheSameInEveryRun(t *testing.T) {
	t.Parallel()
	for ordinal := range 100 {
		if diff := cmp.Diff(plan.Draw("job", ordinal), plan.Draw("job", ordinal)); diff != "" {
			t.Fatal(diff)
		}
	}
	// Other processes and other versions draw this, too.
	drawn := ""
	for ordinal := range 24 {
		drawn += kind(plan.Draw("job-1", ordinal+1))
	}
	if want := "3.3.D.D.....L...0330...3"; drawn != want {
		t.Errorf("drew %s, want %s", drawn, want)
	}
}

func kind(d simulator.Directives) string {
	switch {
	case d.ExecuteThenDrop:
		return "D"
	case d.Late > 0:
		return "L"
	case d.Status == 503:
		return "3"
	case d.Status == 500:
		return "0"
	}
	return "."
}

func TestPlanKeepsItsShares(t *testing.T) {
	t.Parallel()
	const draws = 20_000
	got := map[string]int{}
	for n := range draws {
		got[kind(plan.Draw("job", n))]++
	}
	for kind, share := range map[string]float64{"D": 0.05, "L": 0.1, "0": 0.05, "3": 0.2, ".": 0.6} {
		if have := float64(got[kind]) / draws; math.Abs(have-share) > 0.01 {
			t.Errorf("%s: %v, want %v", kind, have, share)
		}
	}
}

func TestPlanAcceptsAndTells(t *testing.T) {
	t.Parallel()
	accepting := newRig(t, simulator.Options{Plan: simulator.Plan{
		Accept: 1, RunFor: simulator.Duration(time.Millisecond), LookUp: &simulator.LookUps{Forget: 1},
	}})
	accepting.mustAccept(request{job: "j", attempt: 1, body: `{}`})
	accepting.mustAwaitExecution("j")
	accepting.mustSee("Not Found", "/job/j/attempt/1")
	accepting.mustSee("succeeded", "/job/j/attempt/1")

	told := simulator.Plan{Told: 1}
	telling, rec := newRig(t, simulator.Options{Plan: told, CallbackSecret: secret}), newReceiver(t)
	if got, err := telling.do(t.Context(), request{job: "j", attempt: 1, callback: rec.url, body: `{}`}); err == nil {
		t.Errorf("answered %+v", got)
	}
	if got := <-rec.heard; got.Status != "succeeded" || got.err != nil {
		t.Errorf("%+v", got)
	}
	mute := newRig(t, simulator.Options{Plan: told})
	if got := mute.mustDo(request{job: "j", attempt: 1, callback: rec.url, body: `{}`}); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
}

func TestPlanStrikesByNameAndOrdinal(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{Plan: simulator.Plan{Seed: 7, Status: map[int]float64{503: 0.2}}})
	drawn := ""
	for n := range 24 {
		// Every request is another job's; the directive as gives them one name.
		got := r.mustDo(request{job: strings.Repeat("x", n+1), attempt: 1, body: simulate(`{"as":"job-1"}`)})
		drawn += map[bool]string{true: "3", false: "."}[got.status == http.StatusServiceUnavailable]
	}
	want := ""
	for n := range 24 {
		want += kind(simulator.Plan{Seed: 7, Status: map[int]float64{503: 0.2}}.Draw("job-1", n+1))
	}
	if drawn != want || !strings.Contains(drawn, "3") {
		t.Errorf("drew %s, want %s", drawn, want)
	}
}

func TestDirectivesKeepThePlanAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{Plan: simulator.Plan{Status: map[int]float64{503: 1}}})
	if got := r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"answer":1}`)}); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}
