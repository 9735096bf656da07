package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
)

var catalog = onejob.Catalog{
	Kinds:     map[string]onejob.Kind{"ticket": {}},
	Providers: map[string]onejob.ProviderDefaults{"primary": {}, "fallback": {}},
}

// FuzzSubmission: whatever a body holds, it is a job or one clear line.
func FuzzSubmission(f *testing.F) {
	for _, seed := range []string{
		`{"kind": "ticket", "provider": "primary", "input": {"text": "hello"}}`,
		`{"kind": "ticket", "provider": "primary", "fallbacks": ["fallback"], "input": null, "timeout": "10s", "labels": {"a": "b"}}`,
		`{"kind": "ticket", "kind": "ticket"}`, `{"owner": "acme"}`, `[`, ``, `{"input": 1e999999999}`, `{"kind": "\ud800"}`, "\xff", `{"max_attempts": -1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var s wire.Submission
		err := wire.Decode(body, &s)
		if err == nil {
			_, err = onejob.NewJob(s.Request("acme", "k"), catalog)
		}
		if err != nil {
			mustBeOneLine(t, body, err)
		}
	})
}

func mustBeOneLine(t *testing.T, body []byte, err error) {
	t.Helper()
	if !errors.Is(err, onejob.ErrInvalidRequest) || !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%q got %v", body, err)
	}
}

// FuzzVendorRequest: what travels otherwise is taken out of a vendor's request, and nothing else.
func FuzzVendorRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model": "m", "stream": true, "messages": []}`, `{"stream": true}`, `{}`, `{"a": {"stream": 1}, "stream_options": {"include_usage": true}}`,
		`{"\u0073tream": true}`, `{"model": 1}`, `[]`, `{"a": 1}{}`, `{"a": 1, "a": 2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := wire.ReadVendor(body)
		if err != nil {
			mustBeOneLine(t, body, err)
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(r.Input, &after) != nil {
			t.Fatalf("%q became %q", body, r.Input)
		}
		delete(before, "stream")
		delete(before, "stream_options")
		if len(after) != len(before) {
			t.Fatalf("%q became %q", body, r.Input)
		}
		for name, value := range before {
			if !bytes.Equal(bytes.TrimSpace(value), bytes.TrimSpace(after[name])) {
				t.Errorf("%q became %q", body, r.Input)
			}
		}
	})
}

// FuzzVendorStreams: a result of any shape is a stream of JSON, or refused.
func FuzzVendorStreams(f *testing.F) {
	for _, seed := range []string{
		`{"id": "c", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": [{"id": "t"}]}, "finish_reason": "stop"}]}`,
		`{"type": "message", "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "input": {"a": 1}}, {"type": "thinking", "thinking": "…", "signature": "s"}], "stop_reason": "end_turn"}`,
		`{}`, `[]`, `null`, `{"choices": [null]}`, `{"content": [null]}`, `{"content": null}`, `{"choices": [{"message": {"tool_calls": null}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		for _, format := range []wire.Format{wire.OpenAI, wire.Anthropic} {
			events, err := format.Stream(result, true)
			if err != nil {
				continue
			}
			for _, e := range events {
				if e.Data == "[DONE]" {
					continue
				}
				if line, err := json.Marshal(e.Data); err != nil || bytes.ContainsAny(line, "\r\n") {
					t.Errorf("%q has the event %q, %v", result, line, err)
				}
			}
		}
	})
}
