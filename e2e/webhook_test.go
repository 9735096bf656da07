package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onejob/onejob/webhooks"
	"github.com/onejob/onejob/worker"
)

// told is what a receiver was told, signed by the secret.
type told struct {
	ID   string
	Type string `json:"type"`
	Data struct {
		JobID string `json:"job_id"`
	} `json:"data"`
}

// receive returns a receiver of webhooks, and what it was told by the secret.
func receive(t *testing.T, secret string) (url string, heard <-chan told) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan told, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			err = verifier.Verify(body, req.Header)
		}
		hears := told{ID: req.Header.Get("webhook-id")}
		if err == nil {
			err = json.Unmarshal(body, &hears)
		}
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		all <- hears
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

func TestOwnerIsToldWhatBecameOfItsJobs(t *testing.T) {
	s := newSystem(t)
	policy := webhooks.Policy{AllowPrivate: true, CallbackSecrets: []string{callbackSecret}}
	endpoint, err := policy.NewEndpoint(s.owner, "https://receiver.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	toCallback, callbackHears := receive(t, callbackSecret)
	toEndpoint, endpointHears := receive(t, endpoint.Secret)
	endpoint.URL = toEndpoint
	if _, err := s.store.AddEndpointOnce(t.Context(), endpoint); err != nil {
		t.Fatal(err)
	}
	s.startWorker(func(c *worker.Config) { c.Webhooks = policy })

	request := s.request("told", "")
	request.CallbackURL = toCallback
	succeeded := s.submit(request)
	want := told{ID: "job.succeeded:" + succeeded.JobID, Type: "job.succeeded"}
	want.Data.JobID = succeeded.JobID
	for name, heard := range map[string]<-chan told{"callback_url": callbackHears, "endpoint": endpointHears} {
		if got := <-heard; got != want {
			t.Errorf("%s: told %+v, want %+v", name, got, want)
		}
	}
	failed := s.submit(s.request("refused", `"status": 400`))
	if got := <-endpointHears; got.ID != "job.failed:"+failed.JobID+":0" || got.Type != "job.failed" || got.Data.JobID != failed.JobID {
		t.Errorf("told %+v", got)
	}
}
