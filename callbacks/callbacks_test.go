package callbacks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/callbacks"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
)

const (
	newer = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	older = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVz"
)

// deaf is a workflow that nobody can tell anything, and counts for nobody.
type deaf struct{}

func (deaf) AttemptChanged(context.Context, string, int) error {
	return onejob.Errorf(onejob.CodeServerUnreachable, "away")
}
func (deaf) AttemptBecame(string, onejob.AttemptState, onejob.Reason) {}
func (deaf) RaceLost(string)                                          {}

// rig is a receiver, and a job whose first attempt is under way at the provider "calling".
type rig struct {
	store   *postgres.Store
	handler http.Handler
	jobID   string
}

func newRig(t *testing.T) rig {
	t.Helper()
	adapter, err := httpjson.New(httpjson.Config{Name: "calling", URL: "http://h.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	calling := provider.Provider{Name: "calling", Adapter: adapter, Timeout: time.Second, ListenFor: time.Minute, Callback: &provider.CallbackPolicy{Secrets: []string{newer, older}}}
	silent := calling
	silent.Name, silent.Callback = "silent", nil
	registry := provider.NewRegistry(calling, silent)
	store := pgtest.Store(t)
	limits := onejob.Limits{ResultBytes: 1000}
	job, err := onejob.NewJob(onejob.Request{Owner: "o", Key: "k", Kind: "ticket", Provider: "calling", Input: json.RawMessage(`"input"`)},
		onejob.Catalog{Kinds: map[string]onejob.Kind{"ticket": {}}, Providers: registry.Defaults(), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.InsertJobs(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	started, err := store.StartAttemptIfNoneLives(t.Context(), postgres.Start{JobID: job.ID, WorkflowID: job.WorkflowID, Number: 1, Provider: "calling", Execution: uuid.NewString()})
	if err != nil || !started.Mine {
		t.Fatalf("start: %+v, %v", started, err)
	}
	handler := callbacks.New(callbacks.Options{Store: store, Providers: registry, Limits: limits, Tell: deaf{}, Observer: deaf{}, Logger: slog.New(slog.DiscardHandler)})
	return rig{store: store, handler: handler, jobID: job.ID}
}

func (r rig) path(secret string) string {
	return provider.CallbackPath("calling", r.jobID, 1, secret)
}

// post posts the body, signed by the secret, and returns the status.
func (r rig) post(t *testing.T, path, id, body, secret string) int {
	t.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := webhook.Sign(id, now, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader([]byte(body)))
	req.Header = http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {fmt.Sprint(now.Unix())}, "Webhook-Signature": {signature}}
	answer := httptest.NewRecorder()
	r.handler.ServeHTTP(answer, req)
	return answer.Code
}

const done = `{"status": "succeeded", "result": 1}`

func TestStatusesTellTheSenderWhatToDo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := `{"status": "succeeded", "result": "` + strings.Repeat("x", 70_000) + `"}`
	for _, c := range []struct {
		why, path, id, body string
		want                int
	}{
		{"a body longer than a result may be", r.path(newer), "m-1", long, http.StatusRequestEntityTooLarge},
		{"an id longer than may be", r.path(newer), strings.Repeat("i", 256), done, http.StatusBadRequest},
		{"a provider that does not call back", provider.CallbackPath("silent", r.jobID, 1, newer), "m-1", done, http.StatusNotFound},
		{"a provider that is not there", provider.CallbackPath("nobody", r.jobID, 1, newer), "m-1", done, http.StatusNotFound},
		{"an attempt that is not there", provider.CallbackPath("calling", r.jobID, 2, newer), "m-1", done, http.StatusNotFound},
		{"another attempt's token", strings.Replace(provider.CallbackPath("calling", r.jobID, 2, newer), r.jobID+"/2", r.jobID+"/1", 1), "m-1", done, http.StatusNotFound},
		{"no token", strings.TrimSuffix(r.path(newer), provider.CallbackToken("calling", r.jobID, 1, newer)), "m-1", done, http.StatusNotFound},
		{"a failure that says it may be tried again", r.path(newer), "m-2", `{"status": "failed", "error": {"code": "overloaded"}}`, http.StatusOK},
		{"what comes after that", r.path(newer), "m-3", done, http.StatusGone},
	} {
		if got := r.post(t, c.path, c.id, c.body, newer); got != c.want {
			t.Errorf("%s: got %d, want %d", c.why, got, c.want)
		}
	}
}

func TestOlderSecretHoldsWhileItIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if got := r.post(t, r.path(older), "m-1", done, older); got != http.StatusOK {
		t.Errorf("signed by the older secret: got %d", got)
	}
	attempts, err := r.store.Attempts(t.Context(), r.jobID)
	if err != nil || attempts[0].State != onejob.AttemptSucceeded {
		t.Errorf("the attempt is %+v, %v", attempts, err)
	}
}

func TestCallbackWithoutPostgresIsToBeSentAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.Close()
	if got := r.post(t, r.path(newer), "m-1", done, newer); got != http.StatusServiceUnavailable {
		t.Errorf("got %d", got)
	}
}
