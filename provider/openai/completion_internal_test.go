package openai

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/provider/verdict"
)

func TestChunksAddUpToACompletion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ chunks, want string }{
		"choices beside each other": {
			`{"choices":[{"index":1,"delta":{"content":"b"}}]}
			 {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`,
			`{"choices":[{"index":0,"message":{"content":"a"}},{"finish_reason":"stop","index":1,"message":{"content":"bb"}}],"object":"chat.completion"}`,
		},
		"members that no vendor has": {
			`{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"I "}}],"provider":"x"}
			 {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"think"}}],"n":12345678901234567890}`,
			`{"choices":[{"index":0,"message":{"reasoning_content":"I think","role":"assistant"}}],"n":12345678901234567890,"object":"chat.completion","provider":"x"}`,
		},
		"tools beside each other": {
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"t1","function":{"name":"g","arguments":"{"}},{"index":0,"id":"t0","function":{"name":"f","arguments":""}}]}}]}
			 {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}}]}`,
			`{"choices":[{"index":0,"message":{"tool_calls":[{"function":{"arguments":"","name":"f"},"id":"t0"},{"function":{"arguments":"{}","name":"g"},"id":"t1"}]}}],"object":"chat.completion"}`,
		},
		"log probabilities": {
			`{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"a"}],"refusal":null}}]}
			 {"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"b"}],"refusal":null}}]}`,
			`{"choices":[{"index":0,"logprobs":{"content":[{"token":"a"},{"token":"b"}],"refusal":null},"message":{}}],"object":"chat.completion"}`,
		},
		"no usage":  {`{"choices":[],"usage":null}`, `{"choices":[],"object":"chat.completion"}`},
		"nothing":   {``, `{"choices":[],"object":"chat.completion"}`},
		"no object": {`{"choices":[1,null,{"delta":"x"}],"object":"chat.completion.chunk"}`, `{"choices":[{"index":0,"message":{}}],"object":"chat.completion"}`},
	} {
		var stream strings.Builder
		for chunk := range strings.Lines(c.chunks) {
			stream.WriteString("data: " + strings.TrimSpace(chunk) + "\n\n")
		}
		stream.WriteString("data: [DONE]\n\n")
		got := wholeCompletion(verdict.Received{Status: http.StatusOK, Body: []byte(stream.String())})
		if string(got.Body) != c.want || got.Cut != "" {
			t.Errorf("%s: %s%s\nwant %s", name, got.Body, got.CutBy, c.want)
		}
	}
}
