package exercise_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onejob/onejob/provider"
)

// asked is a prompt that says everything.
var asked = provider.Prompt{
	System: "Reply with one JSON object.", User: "Add 1 & 2 <now>", Input: json.RawMessage(`{ "numbers":[1,2] }`),
	Temperature: new(0.0), MaxTokens: 200, Seed: new(int64(7)),
	ResponseFormat: provider.FormatJSONSchema, Schema: json.RawMessage(`{"type":"object"}`),
}

// prompted is, by subject, the body that asks it, and what is read of the recorded reply.
var prompted = map[string]struct {
	body    string
	reply   provider.Reply
	version string
}{
	"http": {
		`{ "numbers":[1,2] }`, provider.Reply{Text: []byte(runReply)}, "http/1",
	},
	"openai chat": {`{"model":"gpt-5.2","messages":[{"role":"system","content":"Reply with one JSON object."},{"role":"user","content":"Add 1 & 2 <now>"}],
		"temperature":0,"max_completion_tokens":200,"seed":7,"response_format":{"type":"json_schema","json_schema":{"name":"reply","schema":{"type":"object"}}}}`,
		provider.Reply{Text: []byte("Good morning."), End: "stop"}, "openai/chat/1",
	},
	"openai responses": {`{"model":"gpt-5.2","instructions":"Reply with one JSON object.","input":"Add 1 & 2 <now>",
		"temperature":0,"max_output_tokens":200,"text":{"format":{"type":"json_schema","name":"reply","schema":{"type":"object"}}}}`,
		provider.Reply{Text: []byte("Good morning."), End: "completed"}, "openai/responses/1",
	},
	"anthropic messages": {`{"model":"claude-opus-5","max_tokens":200,"system":"Reply with one JSON object.","messages":[{"role":"user","content":"Add 1 & 2 <now>"}],
		"temperature":0,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`,
		provider.Reply{Text: []byte("Good morning."), End: "end_turn"}, "anthropic/messages/1",
	},
}

func TestPromptIsAskedInTheVendorsWordsAndItsReplyIsWhatTheModelWrote(t *testing.T) {
	t.Parallel()
	for name, want := range prompted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			var sent string
			adapter := s.mustOpen(t, settings{url: newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				sent = string(body)
				reply{status: 200, body: s.reply}.ServeHTTP(w, r)
			}))})
			prompter := adapter.(provider.Prompter)
			s.input = string(mustPrompt(t, prompter, asked))
			answer := s.callTo(t.Context(), adapter)
			mustBe(t, answer, s.want)
			if diff := cmp.Diff(decoded(t, want.body), decoded(t, sent)); diff != "" {
				t.Errorf("the prompt was sent as %s\n(-want +got)\n%s", sent, diff)
			}
			got, err := prompter.Reply(answer.Result)
			if diff := cmp.Diff(want.reply, got); diff != "" || err != nil {
				t.Errorf("the reply is read otherwise: %v (-want +got)\n%s", err, diff)
			}
			if prompter.Version() != want.version {
				t.Errorf("version %q, want %q: a certificate is of the version", prompter.Version(), want.version)
			}
		})
	}
}

func mustPrompt(t *testing.T, prompter provider.Prompter, p provider.Prompt) json.RawMessage {
	t.Helper()
	input, err := prompter.Prompted(p)
	if err != nil {
		t.Fatal(err)
	}
	return input
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// What a prompt leaves to the provider is left out, and a format that an API lacks, too.
func TestPromptLeavesToTheProviderWhatItDoesNotSay(t *testing.T) {
	t.Parallel()
	least := provider.Prompt{System: "s", User: "u", MaxTokens: 1, ResponseFormat: provider.FormatJSONObject}
	for name, want := range map[string]string{
		"openai chat":        `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}],"max_completion_tokens":1,"response_format":{"type":"json_object"}}`,
		"openai responses":   `{"instructions":"s","input":"u","max_output_tokens":1,"text":{"format":{"type":"json_object"}}}`,
		"anthropic messages": `{"max_tokens":1,"system":"s","messages":[{"role":"user","content":"u"}]}`,
		"anthropic batch":    `{"max_tokens":1,"system":"s","messages":[{"role":"user","content":"u"}]}`,
	} {
		s := subjects[name]
		got := mustPrompt(t, s.mustOpen(t, settings{url: "http://127.0.0.1:1"}).(provider.Prompter), least)
		if diff := cmp.Diff(decoded(t, want), decoded(t, string(got))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// The text may come in pieces, among what is no text.
func TestReplyIsAllTheTextAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]string{
		"openai responses": {
			`{"type": "output_text", "text": "Good morning.", "annotations": [], "logprobs": []}`,
			`{"type": "output_text", "text": "Good ", "annotations": []}, {"type": "output_text", "text": "morning.", "annotations": []}`,
			`"output": [`, `"output": [{"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}, `,
		},
		"anthropic messages": {
			`{"type": "text", "text": "Good morning."}`,
			`{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "Good "}, {"type": "text", "text": "morning."}`,
		},
	} {
		s := subjects[name]
		result := edited(t, s.reply, edits)
		got, err := s.mustOpen(t, settings{url: "http://127.0.0.1:1"}).(provider.Prompter).Reply(json.RawMessage(result))
		if diff := cmp.Diff(prompted[name].reply, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

// A result that the operator wrote, or another API, is not taken for the model's.
func TestReplyOfAnotherAPIsResultIsAnError(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		if name == "http" {
			continue // it takes any JSON
		}
		prompter := s.mustOpen(t, settings{url: "http://127.0.0.1:1"}).(provider.Prompter)
		for _, result := range []string{`{}`, `[]`, `"ok"`, `{"choices":[]}`, `{"object":"response","status":"failed"}`, strings.Replace(recorded("chat.json"), `"choices": [`, `"choices": [{}, `, 1)} {
			if reply, err := prompter.Reply(json.RawMessage(result)); err == nil {
				t.Errorf("%s reads %s as %+v", name, result, reply)
			}
		}
	}
}
