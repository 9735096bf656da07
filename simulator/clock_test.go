package simulator_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onejob/onejob/simulator"
)

// mustSkew checks by how much the answer's clock is ahead of ours.
func mustSkew(t *testing.T, what string, a answer, want time.Duration) {
	t.Helper()
	told, err := http.ParseTime(a.header.Get("Date"))
	if skew := time.Until(told); err != nil || (skew-want).Abs() > time.Minute {
		t.Errorf("%s: ahead by %v, want %v, error %v", what, skew, want, err)
	}
}

func TestClockOfEveryAnswerIsSkewed(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{ClockSkew: -time.Hour})
	mustSkew(t, "a call", r.mustDo(request{job: "j", attempt: 1, body: `{}`}), -time.Hour)
	mustSkew(t, "a look-up", r.mustSend(http.MethodGet, "/v1/run/job/j/attempt/1"), -time.Hour)
	mustSkew(t, "a list", r.mustSend(http.MethodGet, "/anthropic/v1/models"), -time.Hour)
}

func TestClockIsSkewedByDirective(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	mustSkew(t, "a call", r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"clock_skew":"1h"}`)}), time.Hour)
	mustSkew(t, "a list", r.mustSend(http.MethodGet, "/openai/v1/models", "Onejob-Simulate", `{"clock_skew":"1h"}`), time.Hour)
	mustSkew(t, "another list", r.mustSend(http.MethodGet, "/openai/v1/models"), 0)
}

func TestHeaderDirectsWhatHasNoBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for path, want := range map[string]string{"/openai/v1/models": `"server_error"`, "/anthropic/claude/v1/models/any": `"api_error"`} {
		got := r.mustSend(http.MethodGet, path, "Onejob-Simulate", `{"status":500}`)
		mustContain(t, got.body, want)
		if got.status != http.StatusInternalServerError {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := r.mustSend(http.MethodGet, "/openai/v1/models", "Onejob-Simulate", `{"x":1}`); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
}

func TestRefusalsSpeakTheVendorsFormat(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	mustContain(t, r.mustSend(http.MethodPost, "/openai/v1/responses").body, `"type":"invalid_request_error"`)
	mustContain(t, r.mustSend(http.MethodPost, "/anthropic/v1/messages").body, `{"error":{"message":"the body is not JSON","type":"invalid_request_error"},"request_id":"req_`)
	mustContain(t, r.mustSend(http.MethodGet, "/anthropic/v1/messages/batches/none").body, `"type":"not_found_error"`)
	mustContain(t, r.mustSend(http.MethodGet, "/v1/run/ref/none", "Authorization", "Bearer bad").body, `"code":401`)
	mustContain(t, r.mustSend(http.MethodGet, "/anthropic/v1/models", "X-Api-Key", "bad").body, `"type":"authentication_error"`)
}

func TestReferenceIsOfItsFormatOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	id := r.mustAccept(request{job: "j", attempt: 1, body: simulate(`{"accept":true}`)})
	if got := r.mustSend(http.MethodGet, "/openai/v1/responses/"+id); got.status != http.StatusNotFound {
		t.Errorf("%+v", got)
	}
}
