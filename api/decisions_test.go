package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/simulator"
)

// TestFallbackButton: refused while an attempt is unresolved, and one press of it is one attempt.
func TestFallbackButton(t *testing.T) {
	r := newRig(t)
	sim := r.work()
	gate := "gate-" + r.owner
	job := r.mustSubmit("k", fmt.Sprintf(`{"kind": "ticket", "provider": "primary", "max_attempts": 1, "input": {"simulate": {"only": "primary", "hold": %q}}}`, gate))
	if _, err := sim.AwaitRequest(t.Context(), simulator.Subject{Job: job}, 1); err != nil {
		t.Fatal(err)
	}
	press := func(key, provider string) answer {
		return r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/attempts", token: r.token, key: key, body: `{"provider": "` + provider + `"}`})
	}
	if got := press("early", "fallback"); got.problem() != "attempt-unresolved" {
		t.Errorf("beside a live attempt got %d %s", got.status, got.body)
	}
	if got := press("early", "primary"); got.problem() != "idempotency-conflict" {
		t.Errorf("the key for another provider got %d %s", got.status, got.body)
	}
	forced := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/attempts", token: r.token, key: "forced", body: `{"provider": "fallback", "uncertified": true}`})
	if forced.problem() != "forbidden" {
		t.Errorf("an owner who forces a provider got %d %s", forced.status, forced.body)
	}
	cancel := call{method: http.MethodPost, path: "/v1/jobs/" + job + "/attempts/1/cancel", token: r.token, body: `{"reason": "silent"}`}
	if got := r.do(cancel); got.status != http.StatusOK {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	if got := r.do(cancel); got.problem() != "nothing-to-resolve" {
		t.Errorf("the second cancel got %d %s", got.status, got.body)
	}
	r.eventually("the job fails", func() bool { return r.get("/v1/jobs/"+job).field(t, "status") == "failed" })
	if got := press("early", "fallback"); got.problem() != "attempt-unresolved" {
		t.Errorf("the refused press again got %d %s", got.status, got.body)
	}
	for range 2 {
		if got := press("late", "fallback"); got.status != http.StatusAccepted {
			t.Errorf("the press got %d %s", got.status, got.body)
		}
	}
	done := r.get("/v1/jobs/" + job + "?wait=1m")
	if done.field(t, "status") != "succeeded" || done.field(t, "completed_by") != 2.0 || len(done.field(t, "attempts").([]any)) != 2 {
		t.Errorf("the job is %s", done.body)
	}
	if got := press("again", "fallback"); got.problem() != "job-closed" {
		t.Errorf("of a job that is done got %d %s", got.status, got.body)
	}
	if got := press("", "fallback"); got.problem() != "idempotency-key-missing" {
		t.Errorf("without a key got %d %s", got.status, got.body)
	}
}

// TestOperatorResolvesWhatTheOwnerMayNot: an owner would decide what it pays.
func TestOperatorResolvesWhatTheOwnerMayNot(t *testing.T) {
	r := newRig(t)
	sim := r.work()
	job := r.mustSubmit("k", fmt.Sprintf(`{"kind": "ticket", "provider": "primary", "timeout": "100ms", "input": {"simulate": {"hold": "gate-%s"}}}`, r.owner))
	if _, err := sim.AwaitRequest(t.Context(), simulator.Subject{Job: job}, 1); err != nil {
		t.Fatal(err)
	}
	r.eventually("the job is unknown", func() bool { return r.get("/v1/jobs/"+job).field(t, "status") == "unknown" })
	resolve := call{method: http.MethodPost, path: "/v1/jobs/" + job + "/attempts/1/resolve", token: r.token, body: `{"as": "succeeded", "result": {"n": 1.0,  "big": 9007199254740993}, "reason": "seen"}`}
	if got := r.do(resolve); got.problem() != "forbidden" {
		t.Errorf("the owner got %d %s", got.status, got.body)
	}
	resolve.token = r.mustToken("ops", onejob.RoleOperator)
	for body, problem := range map[string]string{
		`{"as": "unknown"}`:             "invalid-request",
		`{"as": "succeeded"}`:           "invalid-request",
		`{"as": "failed", "result": 1}`: "invalid-request",
		`{"as": "succeeded", "result"`:  "invalid-request",
	} {
		bad := resolve
		bad.body = body
		if got := r.do(bad); got.problem() != problem {
			t.Errorf("%s got %d %s", body, got.status, got.body)
		}
	}
	if got := r.do(resolve); got.status != http.StatusOK {
		t.Fatalf("the operator got %d %s", got.status, got.body)
	}
	done := r.get("/v1/jobs/" + job + "?wait=1m")
	const exactly = `,"result":{"n": 1.0,  "big": 9007199254740993}}`
	if body := string(done.body); done.field(t, "status") != "succeeded" || len(body) < len(exactly) || body[len(body)-1-len(exactly):len(body)-1] != exactly {
		t.Errorf("the job is %s", done.body)
	}
}
