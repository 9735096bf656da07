package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEndpointsAreAddedOnceAndRemoved(t *testing.T) {
	r := newRig(t)
	add := call{method: http.MethodPost, path: "/v1/webhooks", token: r.token, key: "hook", body: `{"url": "http://127.0.0.1:1/hook", "topics": ["job.failed"]}`}
	first := r.do(add)
	id, _ := first.field(t, "id").(string)
	secret, _ := first.field(t, "secret").(string)
	if first.status != http.StatusCreated || !strings.HasPrefix(secret, "whsec_") || first.header.Get("Location") != "/v1/webhooks/"+id {
		t.Fatalf("the first got %d %s", first.status, first.body)
	}
	again := r.do(add)
	if again.status != http.StatusOK || again.header.Get("Idempotency-Replayed") != "true" || again.field(t, "id") != id || again.field(t, "secret") != secret {
		t.Errorf("the same again got %d %s", again.status, again.body)
	}
	other := add
	other.body = `{"url": "http://127.0.0.1:1/other", "topics": ["job.failed"]}`
	if got := r.do(other); got.problem() != "idempotency-conflict" {
		t.Errorf("another under the key got %d %s", got.status, got.body)
	}
	for body, why := range map[string]string{
		`{"url": "ftp://127.0.0.1"}`:                                     "a scheme that is not called",
		`{"url": "http://127.0.0.1", "topics": ["job.started"]}`:         "a topic that is not told",
		`{"url": "http://127.0.0.1", "secret": "whsec_MfKQ9r8GKYqrTwj"}`: "a secret of its own",
	} {
		bad := add
		bad.key, bad.body = "bad", body
		if got := r.do(bad); got.problem() != "invalid-request" {
			t.Errorf("%s got %d %s", why, got.status, got.body)
		}
	}
	for _, path := range []string{"/v1/webhooks", "/v1/webhooks/" + id} {
		if got := r.get(path); got.status != http.StatusOK || !strings.Contains(string(got.body), id) || strings.Contains(string(got.body), "whsec_") {
			t.Errorf("%s got %d %s", path, got.status, got.body)
		}
	}
	removed := r.do(call{method: http.MethodDelete, path: "/v1/webhooks/" + id, token: r.token})
	if removed.status != http.StatusOK || removed.field(t, "state") != "disabled" || !strings.Contains(removed.field(t, "disabled_reason").(string), "removed by "+r.owner) {
		t.Errorf("the removal got %d %s", removed.status, removed.body)
	}
}

func TestEndpointIsTestedAndDeliveriesAreSentAgain(t *testing.T) {
	r := newRig(t)
	status := http.StatusOK
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Webhook-Signature") == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
	}))
	defer receiver.Close()
	endpoint := r.do(call{method: http.MethodPost, path: "/v1/webhooks", token: r.token, key: "hook", body: `{"url": "` + receiver.URL + `"}`}).field(t, "id").(string)
	test := call{method: http.MethodPost, path: "/v1/webhooks/" + endpoint + "/test", token: r.token}
	if got := r.do(test); got.status != http.StatusOK || got.field(t, "status") != 200.0 {
		t.Errorf("the test got %d %s", got.status, got.body)
	}
	status = http.StatusTeapot
	if got := r.do(test); got.problem() != "receiver-failed" || !strings.Contains(string(got.body), "418") {
		t.Errorf("the test of one that refuses got %d %s", got.status, got.body)
	}
	job := r.mustSubmit("k", ticket)
	delivery := r.delivery(job, endpoint)
	for query, want := range map[string]bool{"": true, "?endpoint=" + endpoint: true, "?endpoint=" + job: false, "?state=dead": false, "?state=pending&limit=1": true} {
		if got := r.get("/v1/webhooks/deliveries" + query); got.status != http.StatusOK || strings.Contains(string(got.body), `"id":`+delivery+`,`) != want {
			t.Errorf("the log with %q got %d %s", query, got.status, got.body)
		}
	}
	if _, err := pgtestConnect(t, r.url).Exec(t.Context(), `UPDATE webhook_deliveries SET state = 'dead', tries = 3, last_error = 'refused'`); err != nil {
		t.Fatal(err)
	}
	again := call{method: http.MethodPost, path: "/v1/webhooks/deliveries/" + delivery + "/redeliver", token: r.token}
	if got := r.do(again); got.status != http.StatusAccepted || got.field(t, "state") != "pending" || got.field(t, "tries") != 0.0 {
		t.Errorf("the redelivery got %d %s", got.status, got.body)
	}
	if got := r.do(call{method: http.MethodDelete, path: "/v1/webhooks/" + endpoint, token: r.token}); got.status != http.StatusOK {
		t.Fatalf("the removal got %d %s", got.status, got.body)
	}
	if got := r.do(again); got.problem() != "nothing-to-resolve" {
		t.Errorf("a redelivery to one that is removed got %d %s", got.status, got.body)
	}
}
