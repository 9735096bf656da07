package config_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
)

func mustMakeProviders(t *testing.T, c *config.Config) []provider.Provider {
	t.Helper()
	providers, err := c.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	return providers
}

func TestProvidersKeepNamesTimesAndOrder(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	providers := mustMakeProviders(t, c)
	if len(providers) != 7 || providers[0].Name != "primary" || providers[1].Name != "fallback" || providers[2].Name != "plain" {
		t.Fatalf("providers %+v", providers)
	}
	if providers[0].Timeout != 20*time.Second || providers[0].ListenFor != time.Hour {
		t.Errorf("primary %+v", providers[0])
	}
	defaults := provider.NewRegistry(providers...).Defaults()
	for name, want := range c.Catalog().Providers {
		if defaults[name] != want {
			t.Errorf("%s: the worker knows %+v, requests get %+v", name, defaults[name], want)
		}
	}
}

// TestConfiguredProviderIsCalledAsTheFileSays follows one call over the wire.
func TestConfiguredProviderIsCalledAsTheFileSays(t *testing.T) {
	t.Parallel()
	seen := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":{"code":"E-BUSY"}}`)
	}))
	defer server.Close()
	c := mustParse(t, "providers:\n  p:\n    type: http\n    url: "+server.URL+"/run\n"+
		"    headers: {Authorization: 'Bearer ${env:PRIMARY_TOKEN}'}\n    idempotency: {header: Request-Key}\n    certain: {refused: [E-BUSY]}\n")
	call := provider.Call{JobID: "01", Attempt: 1, Input: json.RawMessage(`{}`), IdempotencyKey: "key-1"}
	answer := mustMakeProviders(t, c)[0].Adapter.Call(t.Context(), call)
	r := <-seen
	if r.URL.Path != "/run" || r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("Request-Key") != "key-1" {
		t.Errorf("asked for %s with %v", r.URL, r.Header)
	}
	if answer.Certainty != provider.Failed || answer.Reason != onejob.ReasonRefused || !answer.Retryable {
		t.Errorf("a code declared as a refusal is %+v", answer)
	}
}

func TestPoliciesReachTheWorker(t *testing.T) {
	t.Parallel()
	providers := mustMakeProviders(t, mustParse(t, mustRead(t, "testdata", "full.yaml")))
	primary, plain := providers[0], providers[2]
	for i, want := range map[int]*provider.LookUpPolicy{
		3: {Interval: 3 * time.Second, MaxInterval: 30 * time.Second}, 4: nil, 5: nil, 6: {Interval: time.Second, MaxInterval: time.Minute},
	} {
		if got := providers[i].LookUp; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%s is looked up by %+v", providers[i].Name, got)
		}
	}
	if primary.LookUp == nil || *primary.LookUp != (provider.LookUpPolicy{Interval: 2 * time.Second, MaxInterval: 2 * time.Minute}) {
		t.Errorf("look-up %+v", primary.LookUp)
	}
	if primary.ReAsk == nil || *primary.ReAsk != (provider.ReAskPolicy{Window: 24 * time.Hour, Most: 5}) {
		t.Errorf("re-ask %+v", primary.ReAsk)
	}
	if primary.Limits != (provider.Limits{Concurrent: 50, PerSecond: 0.5}) {
		t.Errorf("limits %+v", primary.Limits)
	}
	if plain.LookUp != nil || plain.ReAsk != nil || plain.Limits != (provider.Limits{}) {
		t.Errorf("a provider that says nothing has %+v", plain)
	}
}

// A provider whose memory has no known end may have forgotten the key: what is sent
// again would be done again.
func TestProviderOfUnknownMemoryIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for _, idempotency := range []string{"{header: Key}", "{header: Key, window: 1h, reasks: 0}"} {
		providers := mustMakeProviders(t, mustParse(t, withProvider("idempotency: "+idempotency)))
		if providers[0].ReAsk != nil {
			t.Errorf("%s: %+v", idempotency, providers[0].ReAsk)
		}
	}
}

func TestConfiguredLookUpAndCancelAskAsTheFileSays(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Method + " " + r.URL.Path
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"status":"done","output":[1]}`)
		}
	}))
	defer server.Close()
	c := mustParse(t, withProvider("lookup: {url: '"+server.URL+"/runs/{ref}', states: {done: succeeded}, result: output}",
		"cancel: {url: '"+server.URL+"/runs/{ref}', method: DELETE}"))
	adapter := mustMakeProviders(t, c)[0].Adapter
	q := provider.Question{Reference: "r-1"}
	if answer := adapter.(provider.LookUpper).LookUp(t.Context(), q); string(answer.Result) != "[1]" {
		t.Errorf("looked up %+v", answer)
	}
	if cancelled := adapter.(provider.Canceller).Cancel(t.Context(), q); cancelled.Verdict != provider.CancelAgreed {
		t.Errorf("cancelled %+v", cancelled)
	}
	for _, want := range []string{"GET /runs/r-1", "DELETE /runs/r-1"} {
		if got := <-seen; got != want {
			t.Errorf("asked %s, want %s", got, want)
		}
	}
}

// TestVendorIsCalledAsTheFileSays follows one call over the wire.
func TestVendorIsCalledAsTheFileSays(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		vendor("openai", "model: m", "unpriced: allow", "api_key: ${env:PRIMARY_TOKEN}", "url: URL/v1", "headers: {OpenAI-Project: a}"):            "/v1/chat/completions",
		vendor("openai", "model: m", "unpriced: allow", "api_key: ${env:PRIMARY_TOKEN}", "url: URL/v1", "api: responses"):                          "/v1/responses",
		vendor("anthropic", "model: m", "unpriced: allow", "api_key: ${env:PRIMARY_TOKEN}", "url: URL", "idempotency: {header: X-Key}"):            "/v1/messages",
		vendor("anthropic", "model: m", "unpriced: allow", "api_key: ${env:PRIMARY_TOKEN}", "url: URL", "api: batch", "certain: {refused: [409]}"): "/v1/messages/batches",
	} {
		seen := make(chan *http.Request, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r
			w.WriteHeader(http.StatusConflict)
		}))
		defer server.Close()
		c := mustParse(t, strings.ReplaceAll(file, "URL", server.URL))
		answer := mustMakeProviders(t, c)[0].Adapter.Call(t.Context(), provider.Call{JobID: "01", Attempt: 1, Input: json.RawMessage(`{}`), IdempotencyKey: "key-1"})
		r := <-seen
		if r.URL.Path != want || r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		if header := c.Providers[0].Idempotency; header != nil && r.Header.Get("X-Key") != "key-1" {
			t.Errorf("no key in %v", r.Header)
		}
		if certain := len(c.Providers[0].Certain.Refused) > 0; certain != (answer.Certainty == provider.Failed) {
			t.Errorf("%s: %+v", want, answer)
		}
	}
}
