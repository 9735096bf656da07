package anthropic

import (
	"encoding/json"
	"net/http"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// FuzzAnswer feeds both APIs what a server could send, as a body, as a stream and as the
// results of a batch.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"type":"message","stop_reason":"end_turn","content":[{"type":"text","text":"a"}],"usage":{"input_tokens":1}}`,
		`{"type":"message_batch","id":"b","processing_status":"in_progress"}`,
		`{"type":"error","error":{"type":"overloaded_error","details":{"error_code":"x"}}}`,
		`{"custom_id":"j-1","result":{"type":"succeeded","message":{"type":"message","stop_reason":"end_turn","content":[{}]}}}`,
		`{"custom_id":"j-1","result":{"type":"errored","error":{"error":{"type":"api_error"}}}}`,
		"data: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"content\":[]}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
		"data: {\"type\":\"content_block_delta\",\"index\":7}\n\ndata: {\"type\":\"error\",\"error\":{}}\n\n",
	} {
		f.Add([]byte(body), false)
		f.Add([]byte(body), true)
	}
	a, err := New(Config{Name: "p", Model: "m"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, streams bool) {
		r := verdict.Received{Status: http.StatusOK, Header: http.Header{}, Body: body}
		if streams {
			r = a.line.Fitting(wholeOf(r))
		}
		checkAnswer(t, a.line.Clean(a.calls.Answer(r)), string(r.Body))
		checkAnswer(t, a.line.Clean(a.batches.LookUp(r, 0)), string(r.Body))
		r.Body = lineOf(r.Body, "j-1")
		checkAnswer(t, a.line.Clean(a.results.LookUp(r, 0)), "")
	})
}

// checkAnswer checks an answer; whole is what a result must be, empty: anything.
func checkAnswer(t *testing.T, answer provider.Answer, whole string) {
	t.Helper()
	switch answer.Certainty {
	case provider.Succeeded:
		if !json.Valid(answer.Result) || !utf8.Valid(answer.Result) || whole != "" && string(answer.Result) != whole {
			t.Errorf("succeeded with %q of %q", answer.Result, whole)
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
