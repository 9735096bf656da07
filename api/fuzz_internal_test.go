package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob"
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
		var s submission
		err := decode(&exchange{body: body}, &s)
		if err == nil {
			_, err = onejob.NewJob(s.request("acme", "k"), catalog)
		}
		if err == nil {
			return
		}
		if p := problemOf(discard, err); !errors.Is(err, onejob.ErrInvalidRequest) || p.Status != http.StatusBadRequest || !utf8.ValidString(p.Detail) || strings.Contains(p.Detail, "\n") {
			t.Errorf("%q got %v", body, err)
		}
	})
}

// FuzzVendorRequest: what travels otherwise is taken out of a vendor's request, and nothing else.
func FuzzVendorRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model": "m", "stream": true, "messages": []}`, `{"stream": true}`, `{}`, `{"a": {"stream": 1}, "stream_options": {"include_usage": true}}`,
		`{"\u0073tream": true}`, `{"model": 1}`, `[]`, `{"a": 1}{}`, `{"a": 1, "a": 2}`,
	} {
		f.Add([]byte(seed))
	}
	v := &vendor{VendorDoor: VendorDoor{Kind: "ticket", Provider: "primary"}, deriveKeys: true, model: func(string) string { return "m" }}
	f.Fuzz(func(t *testing.T, body []byte) {
		x := &exchange{body: body, request: &http.Request{Header: http.Header{}}, principal: Principal{Owner: "acme"}}
		asked, err := v.read(x)
		if err != nil {
			if p := problemOf(discard, err); p.Status != http.StatusBadRequest && p.Status != http.StatusNotFound {
				t.Errorf("%q got %v", body, err)
			}
			return
		}
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(asked.request.Input, &after) != nil {
			t.Fatalf("%q became %q", body, asked.request.Input)
		}
		delete(before, "stream")
		delete(before, "stream_options")
		if len(after) != len(before) {
			t.Fatalf("%q became %q", body, asked.request.Input)
		}
		for name, value := range before {
			if !bytes.Equal(bytes.TrimSpace(value), bytes.TrimSpace(after[name])) {
				t.Errorf("%q became %q", body, asked.request.Input)
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
		for _, format := range []func([]byte, bool) ([]vendorEvent, error){completionStream, messageStream} {
			events, err := format(result, true)
			if err != nil {
				continue
			}
			for _, e := range events {
				text, plain := e.data.(string)
				if plain && text == "[DONE]" {
					continue
				}
				if line, err := marshal(e.data); err != nil || bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
					t.Errorf("%q has the event %q, %v", result, line, err)
				}
			}
		}
	})
}
