package simulator_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onejob/onejob/simulator"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

// heard is a callback as its receiver gets it.
type heard struct {
	outcome
	header http.Header
	err    error // of its verification
}

// receiver hears callbacks, and answers each with the next of its statuses, else 204.
type receiver struct {
	url   string
	heard chan heard
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	t.Helper()
	verifier, err := webhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan int, len(statuses))
	for _, status := range statuses {
		next <- status
	}
	rec := &receiver{heard: make(chan heard, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := heard{header: r.Header, err: verifier.Verify(body, r.Header)}
		if err := json.Unmarshal(body, &h.outcome); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		rec.heard <- h
		w.Header().Set("Location", "/elsewhere") // of a redirect that nobody shall follow
		select {
		case status := <-next:
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(server.Close)
	rec.url = server.URL + "/callbacks/token"
	return rec
}

func newCallbackRig(t *testing.T) *rig {
	t.Helper()
	return newRig(t, simulator.Options{CallbackSecret: secret})
}

func TestCallbackTellsTheOutcomeSigned(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t)
	id := r.mustAccept(request{job: "j", attempt: 3, callback: rec.url, body: simulate(`{"accept":true,"answer":7,"callback":{}}`)})
	got := <-rec.heard
	if got.err != nil || got.ID != id || got.Status != "succeeded" || !strings.Contains(string(got.Result), `"answer":7`) || got.Usage == nil {
		t.Errorf("%+v", got)
	}
	r.mustAwaitDeliveries("j", 1)
	tries, err := r.Deliveries(t.Context(), simulator.Subject{Job: "j", Attempt: 3})
	if err != nil || len(tries) != 1 || tries[0].Status != http.StatusNoContent || tries[0].ID != got.header.Get("Webhook-Id") {
		t.Errorf("%+v, error %v", tries, err)
	}
	if tries, err := r.Deliveries(t.Context(), simulator.Subject{Job: "j", Attempt: 1}); err != nil || len(tries) != 0 {
		t.Errorf("another attempt's: %+v, error %v", tries, err)
	}
}

func (r *rig) mustAwaitDeliveries(job string, count int) {
	r.t.Helper()
	if _, err := r.AwaitDelivery(r.t.Context(), simulator.Subject{Job: job}, count); err != nil {
		r.t.Fatal(err)
	}
}

func TestCallbackComesBeforeTheReplyOrAfterIt(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"", `"accept":true,`} {
		r, rec := newCallbackRig(t), newReceiver(t)
		r.mustDo(request{job: "b", attempt: 1, callback: rec.url, body: simulate(`{` + accept + `"callback":{"when":"before"}}`)})
		select {
		case <-rec.heard:
		default:
			t.Error("answered before the callback")
		}
		r.start(t.Context(), request{job: "a", attempt: 1, callback: rec.url, body: simulate(`{` + accept + `"callback":{"when":"after"},"execute_then_drop":true}`)})
		if got := <-rec.heard; got.Status != "succeeded" {
			t.Errorf("%+v", got)
		}
	}
}

func TestSilentCallIsToldByCallback(t *testing.T) {
	t.Parallel()
	for _, directives := range []string{`{"silence":true,"callback":{}}`, `{"late":"1h","callback":{}}`, `{"hold_after":"gate","callback":{}}`} {
		r, rec := newCallbackRig(t), newReceiver(t)
		r.start(t.Context(), request{job: "j", attempt: 1, callback: rec.url, body: simulate(directives)})
		if got := <-rec.heard; got.Status != "succeeded" {
			t.Errorf("%s: %+v", directives, got)
		}
	}
}

func TestAnswerComesTwice(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t)
	got := r.mustDo(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"answer":1,"callback":{"hold":"gate","answer":2}}`)})
	r.mustRelease("gate")
	late := <-rec.heard
	if !strings.Contains(got.body, `"answer":1`) || !strings.Contains(string(late.Result), `"answer":2`) {
		t.Errorf("%s\n%s", got.body, late.Result)
	}
}

func TestCallbackIsRepeatedUnderItsID(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t)
	r.mustDo(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"callback":{"times":2}}`)})
	first, second := <-rec.heard, <-rec.heard
	if first.header.Get("Webhook-Id") != second.header.Get("Webhook-Id") || first.err != nil || second.err != nil {
		t.Errorf("%+v\n%+v", first, second)
	}
}

func TestCallbackIsTriedAgainUntilItIsTaken(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t, 500, 302)
	r.mustDo(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"callback":{}}`)})
	r.mustAwaitDeliveries("j", 3)
	tries, err := r.Deliveries(t.Context(), simulator.Subject{Job: "j"})
	if err != nil || len(tries) != 3 || tries[0].Status != 500 || tries[1].Status != 302 || tries[2].Status != 204 {
		t.Errorf("%+v, error %v", tries, err)
	}
}

func TestCallbackGivesUpAfterItsTries(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t, 500, 500, 500)
	r.mustDo(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"callback":{"tries":2,"when":"before"}}`)})
	counts, err := r.Executions(t.Context(), simulator.Subject{Job: "j"})
	if err != nil || counts.Deliveries != 2 {
		t.Errorf("%+v, error %v", counts, err)
	}
}

func TestCallbackIsForgedOrStale(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t)
	for directives, want := range map[string]error{
		`{"wrong_signature":true}`: webhooks.ErrNoMatchingSignature,
		`{"age":"10m"}`:            webhooks.ErrMessageTooOld,
		`{"age":"-10m"}`:           webhooks.ErrMessageTooNew,
	} {
		r.mustDo(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"callback":` + directives + `}`)})
		if got := <-rec.heard; !errors.Is(got.err, want) {
			t.Errorf("%s: %v, want %v", directives, got.err, want)
		}
	}
}

func TestCancelledCallIsToldAsCancelled(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t)
	id := r.mustAccept(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"accept":true,"run_until":"gate","callback":{}}`)})
	r.mustSend(http.MethodPost, "/v1/run/ref/"+id+"/cancel")
	if got := <-rec.heard; got.Status != "cancelled" || got.ID != id {
		t.Errorf("%+v", got)
	}
}

func TestCallbackNeedsAURLAndASecret(t *testing.T) {
	t.Parallel()
	wanted := simulate(`{"callback":{}}`)
	if got := newRig(t, simulator.Options{}).mustDo(request{job: "j", attempt: 1, callback: "http://127.0.0.1:1/", body: wanted}); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
	r := newCallbackRig(t)
	if got := r.mustDo(request{job: "j", attempt: 1, callback: "file:///etc", body: wanted}); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
	if got := r.mustDo(request{job: "j", attempt: 1, body: wanted}); got.status != http.StatusOK {
		t.Errorf("a caller that awaits no callback: %+v", got)
	}
}

func TestResetEndsWhatRunsBesides(t *testing.T) {
	t.Parallel()
	r, rec := newCallbackRig(t), newReceiver(t)
	r.mustAccept(request{job: "j", attempt: 1, callback: rec.url, body: simulate(`{"accept":true,"run_until":"gate","callback":{}}`)})
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mustRelease("gate")
	r.mustCount(simulator.Subject{Job: "j"}, 0, 0)
	select {
	case got := <-rec.heard:
		t.Errorf("%+v", got)
	default:
	}
}

func TestSecretsAreChecked(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{secret: true, "whsec_c2hvcnQ=": false, secret[6:]: false, "whsec_?": false} {
		if err := simulator.CheckSecret(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
