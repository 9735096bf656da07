package exercise_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onejob/onejob/provider"
)

func TestPromptIsCountedByItsVendor(t *testing.T) {
	t.Parallel()
	var path, sent string
	s := subjects["anthropic messages"]
	adapter := s.mustOpen(t, settings{url: newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		path, sent = r.URL.Path, string(body)
		reply{status: 200, body: `{"input_tokens": 2095}`}.ServeHTTP(w, r)
	}))})
	tokens, err := adapter.(provider.TokenCounter).CountTokens(t.Context(), asked)
	if err != nil || tokens != 2095 || path != "/v1/messages/count_tokens" {
		t.Errorf("%d, %v at %s", tokens, err, path)
	}
	want := `{"model":"claude-opus-5","system":"Reply with one JSON object.","messages":[{"role":"user","content":"Add 1 & 2 <now>"}],
		"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, sent)); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestCountThatDoesNotComeIsAnError(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]reply{
		"refused":  {status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":"no"}}`},
		"nothing":  {status: 200, body: `{}`},
		"no count": {status: 200, body: `{"input_tokens": -1}`},
	} {
		s := subjects["anthropic messages"]
		adapter := s.mustOpen(t, settings{url: newServer(t, answer)})
		if tokens, err := adapter.(provider.TokenCounter).CountTokens(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "did not count") {
			t.Errorf("%s: %d, %v", name, tokens, err)
		}
	}
	adapter := subjects["anthropic messages"].mustOpen(t, settings{url: "http://127.0.0.1:1"})
	if tokens, err := adapter.(provider.TokenCounter).CountTokens(t.Context(), asked); err == nil {
		t.Errorf("nobody answers: %d", tokens)
	}
}
