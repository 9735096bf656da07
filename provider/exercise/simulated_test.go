package exercise_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/openai"
	"github.com/onejob/onejob/simulator"
)

// simulated are the vendors as the simulated provider plays them: where, and whether an
// answer has to be looked up.
var simulated = map[string]struct {
	subject
	path  string
	later bool
}{
	"openai chat":                        {subjects["openai chat"], "/openai", false},
	"openai chat, streamed":              {subject{open: openOpenAI(openai.Config{Stream: true}), input: chatInput}, "/openai", false},
	"openai responses":                   {subjects["openai responses"], "/openai", false},
	"openai responses, streamed":         {subject{open: openOpenAI(openai.Config{API: openai.Responses, Stream: true}), input: responseBody}, "/openai", false},
	"openai responses in the background": {subjects["openai responses in the background"], "/openai", true},
	"anthropic messages":                 {subjects["anthropic messages"], "/anthropic", false},
	"anthropic messages, streamed":       {subject{open: openAnthropic(anthropic.Config{Stream: true}), input: messageInput}, "/anthropic", false},
	"anthropic batch":                    {subjects["anthropic batch"], "/anthropic", true},
}

// outcome calls with the directives, and looks up what was taken under a reference.
func outcome(ctx context.Context, t *testing.T, adapter adapterUnderTest, input, directives string) provider.Answer {
	t.Helper()
	c := call
	c.Input = json.RawMessage(with(`"simulate":`+directives, input))
	answer := adapter.Call(ctx, c)
	q := question
	q.Reference = answer.Reference
	for answer.Certainty == provider.Accepted || answer.Reason == onejob.ReasonInProgress {
		if answer = adapter.LookUp(ctx, q); ctx.Err() != nil {
			t.Fatalf("no outcome: %+v", answer)
		}
	}
	return answer
}

func TestSimulatedVendorsAreReadAsTheRealOnes(t *testing.T) {
	t.Parallel()
	for name, s := range simulated {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(simulator.New(simulator.Options{}))
			t.Cleanup(server.Close)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			adapter := s.mustOpen(t, settings{url: server.URL + s.path})
			const usage = `"usage":{"input_tokens":11,"cached_input_tokens":3,"output_tokens":7,"reasoning_tokens":2}`
			got := outcome(ctx, t, adapter, s.input, `{`+usage+`,"model":"served"}`)
			if got.Certainty != provider.Succeeded || got.Usage == nil || got.Usage.Model != "served" {
				t.Fatalf("%+v, usage %+v", got, got.Usage)
			}
			if u := *got.Usage; u.InputTokens != 11 || u.CachedInputTokens != 3 || u.OutputTokens != 7 || u.ReasoningTokens != 2 && !strings.HasPrefix(name, "anthropic messages, s") {
				t.Errorf("usage %+v", u)
			}
			for _, end := range []string{"length", "refusal"} {
				got := outcome(ctx, t, adapter, s.input, `{"end":"`+end+`",`+usage+`}`)
				if got.Certainty != provider.Failed || got.Reason != violation || got.Usage == nil || got.Usage.OutputTokens != 7 {
					t.Errorf("%s: %+v, usage %+v", end, got, got.Usage)
				}
			}
			if strings.HasSuffix(name, "streamed") {
				for directives, want := range map[string]onejob.Reason{`{"cut_stream":1}`: onejob.ReasonConnectionLost, `{"stream_error":"server_error"}`: onejob.ReasonServerError} {
					if got := outcome(ctx, t, adapter, s.input, directives); got.Certainty != provider.Unknown || got.Reason != want {
						t.Errorf("%s: %+v", directives, got)
					}
				}
			}
		})
	}
}
