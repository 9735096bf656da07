package openai

import (
	"encoding/json"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// FuzzAnswer feeds both APIs what a server could send, as a body and as a stream.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"object":"chat.completion","choices":[{"finish_reason":"stop","message":{"content":"a"}}],"usage":{"prompt_tokens":1}}`,
		`{"object":"response","id":"r","status":"queued","output":[]}`,
		`{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}`,
		`{"error":{"code":"rate_limit_exceeded"}}`,
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":0,\"id\":\"x\"}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[{\"index\":-1,\"logprobs\":{\"content\":[1]}}],\"usage\":null}\n\ndata: {\"error\":1}\n\n",
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"status\":\"completed\",\"output\":[1]}}\n\n",
	} {
		f.Add([]byte(body), false)
		f.Add([]byte(body), true)
	}
	var adapters []*Adapter
	for _, api := range []string{Chat, Responses} {
		a, err := New(Config{Name: "p", Model: "m", API: api})
		if err != nil {
			f.Fatal(err)
		}
		adapters = append(adapters, a)
	}
	f.Fuzz(func(t *testing.T, body []byte, streams bool) {
		for _, a := range adapters {
			r := verdict.Received{Status: http.StatusOK, Header: http.Header{}, Body: body}
			if streams {
				r = a.line.Fitting(a.api.whole(r))
			}
			checkAnswer(t, a.line, a.judge.Answer(r), r)
			checkAnswer(t, a.line, a.judge.LookUp(r, 0), r)
		}
	})
}

func checkAnswer(t *testing.T, way *line.Line, answer provider.Answer, r verdict.Received) {
	t.Helper()
	answer = way.Clean(answer)
	switch answer.Certainty {
	case provider.Succeeded:
		if !json.Valid(answer.Result) || !utf8.Valid(answer.Result) || string(answer.Result) != string(r.Body) {
			t.Errorf("succeeded with %q of %q", answer.Result, r.Body)
		}
	case provider.Accepted:
		if answer.Reference == "" {
			t.Error("accepted without a reference")
		}
	case provider.Failed, provider.Unknown:
		if answer.Reason == "" || answer.Result != nil || answer.Detail == "" {
			t.Errorf("answer %+v", answer)
		}
	default:
		t.Errorf("certainty %q", answer.Certainty)
	}
	if !utf8.ValidString(answer.Detail) || answer.RetryAfter < 0 {
		t.Errorf("answer %+v", answer)
	}
}
