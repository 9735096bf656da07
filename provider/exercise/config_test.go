package exercise_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/openai"
	"github.com/onejob/onejob/provider/verdict"
)

func TestUnusableConfigurationOfAVendorIsRefused(t *testing.T) {
	t.Parallel()
	tries := map[string]error{}
	for name, c := range map[string]openai.Config{
		"no model":               {},
		"an api of another":      {Model: "m", API: "messages"},
		"chat in the background": {Model: "m", Background: true},
		"both ways":              {Model: "m", API: openai.Responses, Background: true, Stream: true},
		"two keys":               {Model: "m", APIKey: "k", Headers: map[string]string{"authorization": "Bearer x"}},
		"no url":                 {Model: "m", URL: "ftp://h"},
		"a certain timeout":      {Model: "m", Certain: verdict.Certain{Refused: []int{504}}},
		"a header of ours":       {Model: "m", Headers: map[string]string{"Onejob-Job": "x"}},
	} {
		c.Name = "p"
		_, tries["openai: "+name] = openai.New(c)
	}
	for name, c := range map[string]anthropic.Config{
		"no model":          {},
		"an api of another": {Model: "m", API: "chat"},
		"a batch streams":   {Model: "m", API: anthropic.Batch, Stream: true},
		"two keys":          {Model: "m", APIKey: "k", Headers: map[string]string{"x-api-key": "x"}},
		"v1 twice":          {Model: "m", URL: "https://h/v1/"},
		"a certain timeout": {Model: "m", Certain: verdict.Certain{RefusedCodes: []string{"timeout_error"}}},
		"no proxy":          {Model: "m", Proxy: "h"},
	} {
		c.Name = "p"
		_, tries["anthropic: "+name] = anthropic.New(c)
	}
	for name, err := range tries {
		if onejob.CodeOf(err) != onejob.CodeMisconfigured || !strings.Contains(err.Error(), `"p"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInputOfAnotherKindIsRefusedAndNotSent(t *testing.T) {
	t.Parallel()
	for name, inputs := range map[string][]string{
		"openai chat":        {`{"model":"gpt-4"}`, `{"stream":true}`, `[]`, `"text"`},
		"openai responses":   {`{"model":"gpt-4"}`, `{"stream":true}`, `{"background":true}`},
		"anthropic messages": {`{"model":"claude-3"}`, `{"stream":true}`},
		"anthropic batch":    {`{"model":"claude-3"}`, `{"stream":true}`},
	} {
		server, requests := listening(t, reply{status: 200})
		adapter := subjects[name].mustOpen(t, settings{url: server.URL})
		for _, text := range inputs {
			got := adapter.Call(t.Context(), provider.Call{Input: json.RawMessage(text)})
			if got.Certainty != provider.Failed || got.Reason != onejob.ReasonRejected || got.Retryable || len(requests) != 0 {
				t.Errorf("%s: %s is %+v, %d sent", name, text, got, len(requests))
			}
		}
	}
}

// Azure and gateways want a query, or the key under another name.
func TestQuirksOfAServerAreConfiguration(t *testing.T) {
	t.Parallel()
	server, requests := listening(t, reply{status: 200, body: recorded("chat.json")})
	azure, err := openai.New(openai.Config{
		Name: "p", Model: "m", URL: server.URL + "/openai/deployments/d?api-version=2026-10-01",
		Headers: map[string]string{"api-key": "correct-horse"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(azure.Close)
	azure.Call(t.Context(), provider.Call{Input: json.RawMessage(`{}`)})
	r := <-requests
	if r.uri != "/openai/deployments/d/chat/completions?api-version=2026-10-01" || r.header.Get("Api-Key") != "correct-horse" || r.header.Get("Authorization") != "" {
		t.Errorf("%s with %v", r.uri, r.header)
	}
	gateway, err := anthropic.New(anthropic.Config{
		Name: "p", Model: "m", URL: server.URL + "/anthropic/?team=a",
		Headers: map[string]string{"x-api-key": "correct-horse", "anthropic-version": "2023-06-01"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gateway.Close)
	gateway.Call(t.Context(), provider.Call{Input: json.RawMessage(`{}`)})
	r = <-requests
	if r.uri != "/anthropic/v1/messages?team=a" || r.header.Get("X-Api-Key") != "correct-horse" || strings.Join(r.header[http.CanonicalHeaderKey("anthropic-version")], ",") != "2023-06-01" {
		t.Errorf("%s with %v", r.uri, r.header)
	}
}
