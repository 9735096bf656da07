package exercise_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/openai"
)

// streamed are the adapters with streaming on, and what their recorded streams add up to.
var streamed = map[string]struct {
	subject
	stream, last, model, result string
}{
	"openai chat": {
		subject{open: openOpenAI(openai.Config{Stream: true}), input: chatInput}, recorded("chat.sse"), "data: [DONE]", "gpt-5.2-2025-12-11",
		`{"id":"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG","object":"chat.completion","created":1796054400,"model":"gpt-5.2-2025-12-11","service_tier":"default","obfuscation":"x",
		"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"Good <morning>.","refusal":null,
		"tool_calls":[{"id":"call_1","type":"function","function":{"name":"greet","arguments":"{\"a\":1}"}}]}}],
		"usage":{"prompt_tokens":1117,"completion_tokens":46,"total_tokens":1163,"prompt_tokens_details":{"cached_tokens":1024},"completion_tokens_details":{"reasoning_tokens":32}}}`,
	},
	"openai responses": {
		subject{open: openOpenAI(openai.Config{API: openai.Responses, Stream: true}), input: responseBody}, recorded("response.sse"), "event: response.completed", "gpt-5.2-2025-12-11",
		`{"id":"resp_1","object":"response","status":"completed","model":"gpt-5.2-2025-12-11","error":null,
		"output":[{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Good morning.","annotations":[]}]}],
		"usage":{"input_tokens":1117,"input_tokens_details":{"cached_tokens":1024},"output_tokens":46,"output_tokens_details":{"reasoning_tokens":32},"total_tokens":1163}}`,
	},
	"anthropic messages": {
		subject{open: openAnthropic(anthropic.Config{Stream: true}), input: messageInput}, recorded("message.sse"), "event: message_stop", "claude-opus-5-20260801",
		`{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-opus-5-20260801",
		"content":[{"type":"text","text":"Good morning."},{"type":"tool_use","id":"toolu_1","name":"greet","input":{"a":1}}],
		"stop_reason":"tool_use","stop_sequence":null,
		"usage":{"input_tokens":61,"cache_creation_input_tokens":32,"cache_read_input_tokens":1024,"output_tokens":46}}`,
	},
}

func events(body string) reply {
	return reply{status: 200, header: map[string]string{"Content-Type": "text/event-stream; charset=utf-8"}, body: body}
}

func TestStreamAddsUpToTheAnswerWithoutIt(t *testing.T) {
	t.Parallel()
	for name, s := range streamed {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, requests := listening(t, events(s.stream))
			got := s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL}))
			var want, have any
			mustUnmarshal(t, s.result, &want)
			mustUnmarshal(t, string(got.Result), &have)
			if diff := cmp.Diff(want, have); got.Certainty != provider.Succeeded || diff != "" {
				t.Errorf("%s %s (-want +got)\n%s", got.Certainty, got.Detail, diff)
			}
			usage := *succeeded(s.model).Usage
			if name == "anthropic messages" {
				usage.ReasoningTokens = 0 // its stream does not say
			}
			if diff := cmp.Diff(&usage, got.Usage); diff != "" {
				t.Errorf("usage (-want +got)\n%s", diff)
			}
			if body := (<-requests).body; !strings.Contains(body, `"stream":true`) {
				t.Errorf("sent %s", body)
			}
		})
	}
}

func mustUnmarshal(t *testing.T, text string, into *any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func TestStreamWithoutItsLastEventIsUnknown(t *testing.T) {
	t.Parallel()
	for name, s := range streamed {
		for _, cut := range []string{"", s.stream[:strings.Index(s.stream, s.last)], s.stream[:len(s.stream)/2]} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.check(t, events(cut), settings{}, unknown(onejob.ReasonConnectionLost))
			})
		}
		s.check(t, events("data: {\n\n"+s.stream), settings{}, unknown(onejob.ReasonUnreadable))
	}
}

// An error event after others does not say what was done and billed; alone it is the
// whole answer.
func TestStreamThatEndsInAnErrorIsCertainOnlyIfItBeganWithIt(t *testing.T) {
	t.Parallel()
	broken := map[string]string{
		"openai chat":        "data: " + openaiFailure("rate_limit_exceeded") + "\n\n",
		"openai responses":   "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"no\",\"param\":null,\"sequence_number\":1}\n\n",
		"anthropic messages": "event: error\ndata: " + anthropicFailure("overloaded_error") + "\n\n",
	}
	for name, s := range streamed {
		first := s.stream[:strings.Index(s.stream, "\n\n")+2]
		s.check(t, events(broken[name]), settings{}, retryable(onejob.ReasonRefused, 0))
		s.check(t, events(first+broken[name]), settings{}, unknown(onejob.ReasonServerError))
	}
}

func TestStreamedResponseThatFailsHasFailed(t *testing.T) {
	t.Parallel()
	s := streamed["openai responses"]
	stream := strings.ReplaceAll(s.stream, `response.completed`, `response.failed`)
	stream = strings.ReplaceAll(stream, `"status":"completed","model":"gpt-5.2-2025-12-11","error":null`, `"status":"failed","model":"gpt-5.2-2025-12-11","error":{"code":"server_error","message":"no"}`)
	want := failed(onejob.ReasonProviderFailed)
	want.Usage = succeeded(s.model).Usage
	s.check(t, events(stream), settings{}, want)
}

func TestStreamedAnswerThatIsCutByItsLengthIsNoResult(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string][2]string{
		"openai chat":        {`"finish_reason":"tool_calls"`, `"finish_reason":"length"`},
		"anthropic messages": {`"stop_reason":"tool_use"`, `"stop_reason":"max_tokens"`},
	} {
		s := streamed[name]
		server := httptest.NewServer(events(strings.Replace(s.stream, edit[0], edit[1], 1)))
		t.Cleanup(server.Close)
		got := s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL}))
		if got.Certainty != provider.Failed || got.Reason != violation || got.Usage == nil || got.Usage.OutputTokens != 46 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWholeAnswerToAStreamedCallCounts(t *testing.T) {
	t.Parallel()
	for name, s := range streamed {
		plain := subjects[name]
		s.check(t, reply{status: 200, body: plain.reply}, settings{}, plain.want)
		s.check(t, reply{status: 429, body: plain.failure("rate_limit_error")}, settings{}, retryable(onejob.ReasonRefused, 0))
	}
}

func TestStreamLongerThanAResultMayBeIsUnknown(t *testing.T) {
	t.Parallel()
	for name, s := range streamed {
		server := httptest.NewServer(events(s.stream))
		t.Cleanup(server.Close)
		limits := onejob.Limits{ResultBytes: 200} // the stream is within 16 times of it, what it adds up to is not
		got := s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL, limits: limits}))
		if got.Certainty != provider.Unknown || got.Reason != onejob.ReasonTooLarge {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
