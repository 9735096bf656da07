package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/ssestream"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// wholeMessage are the ends of a whole answer.
var wholeMessage = verdict.Ends{
	string(sdk.StopReasonEndTurn), string(sdk.StopReasonStopSequence), string(sdk.StopReasonToolUse),
}

// Codes of ends that the vendor has no word for.
const (
	noContent    = "no_content"
	noStopReason = "no_stop_reason"
)

type messageReader struct {
	accepted verdict.Ends
	certain  verdict.Certain
}

func (r messageReader) read(m verdict.Message) (provider.Answer, bool) {
	var message sdk.Message
	if m.Failed || m.Text("type") != "message" || json.Unmarshal(m.Body, &message) != nil {
		return provider.Answer{}, false
	}
	ends := []string{cmp.Or(string(message.StopReason), noStopReason)}
	if len(message.Content) == 0 {
		ends = append(ends, noContent)
	}
	return r.accepted.Judge(m.Body, ends...), true
}

// counts: the vendor counts cached tokens beside its input tokens, we among them.
var counts = verdict.Counts{
	"usage.input_tokens":                          addInput,
	"usage.cache_creation_input_tokens":           addInput,
	"usage.cache_read_input_tokens":               func(u *provider.Usage, n int64) { addInput(u, n); u.CachedInputTokens = n },
	"usage.output_tokens":                         func(u *provider.Usage, n int64) { u.OutputTokens = n },
	"usage.output_tokens_details.thinking_tokens": func(u *provider.Usage, n int64) { u.ReasoningTokens = n },
}

func addInput(u *provider.Usage, n int64) { u.InputTokens += n }

// wholeOf returns the message that a stream of events adds up to.
func wholeOf(stream verdict.Received) verdict.Received {
	events := ssestream.NewDecoder(&http.Response{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(stream.Body))})
	var message sdk.Message
	started := false
	for events.Next() {
		data := bytes.TrimSpace(events.Event().Data)
		var event sdk.MessageStreamEventUnion
		if err := json.Unmarshal(data, &event); err != nil {
			return line.Unreadable(stream, "an event of the stream is no JSON object")
		}
		switch event.Type {
		case "error":
			return line.Broken(stream, data, !started)
		case "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta", "content_block_stop":
			started = true
			if err := message.Accumulate(event); err != nil {
				return line.Unreadable(stream, "the events of the stream do not fit together")
			}
			if event.Type == "message_stop" {
				return line.Whole(stream, []byte(message.RawJSON()))
			}
		}
	}
	return line.CutShort(stream, "the stream ended before its last event")
}
