package config_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
)

func mustMakeProviders(t *testing.T, c *config.Config) []provider.Provider {
	t.Helper()
	providers, err := c.Providers()
	if err != nil {
		t.Fatal(err)
	}
	return providers
}

func TestProvidersKeepNamesTimesAndOrder(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	providers := mustMakeProviders(t, c)
	if len(providers) != 3 || providers[0].Name != "primary" || providers[1].Name != "fallback" || providers[2].Name != "plain" {
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
	}))
	defer server.Close()
	c := mustParse(t, "providers:\n  p:\n    type: http\n    url: "+server.URL+"/run\n"+
		"    headers: {Authorization: 'Bearer ${env:PRIMARY_TOKEN}'}\n    idempotency: {header: Request-Key}\n    certain: {refused: [409]}\n")
	call := provider.Call{JobID: "01", Attempt: 1, Input: json.RawMessage(`{}`), IdempotencyKey: "key-1"}
	answer := mustMakeProviders(t, c)[0].Adapter.Call(t.Context(), call)
	r := <-seen
	if r.URL.Path != "/run" || r.Header.Get("Authorization") != "Bearer s3cret" || r.Header.Get("Request-Key") != "key-1" {
		t.Errorf("asked for %s with %v", r.URL, r.Header)
	}
	if answer.Certainty != provider.Failed || answer.Reason != onejob.ReasonRefused || !answer.Retryable {
		t.Errorf("a status declared as a refusal is %+v", answer)
	}
}
