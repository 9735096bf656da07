package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// eachEvent calls read with the data of the events in a stream until read has an answer.
func eachEvent(stream verdict.Received, read func(data []byte, first bool) *verdict.Received) verdict.Received {
	events := ssestream.NewDecoder(&http.Response{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(stream.Body))})
	for first := true; events.Next(); first = false {
		if answer := read(bytes.TrimSpace(events.Event().Data), first); answer != nil {
			return *answer
		}
	}
	return line.CutShort(stream, "the stream ended before its last event")
}

// wholeCompletion returns the completion that a stream of chunks adds up to.
func wholeCompletion(stream verdict.Received) verdict.Received {
	var sum completion
	return eachEvent(stream, func(data []byte, first bool) *verdict.Received {
		var answer verdict.Received
		chunk, err := readChunk(data)
		switch {
		case string(data) == "[DONE]":
			answer = line.Whole(stream, sum.body())
		case err != nil:
			answer = line.Unreadable(stream, "an event of the stream is no JSON object")
		case chunk["error"] != nil:
			answer = line.Broken(stream, data, first)
		default:
			sum.add(chunk)
			return nil
		}
		return &answer
	})
}

func readChunk(data []byte) (chunk map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return chunk, d.Decode(&chunk)
}

// finalEvents complete a response.
var finalEvents = map[string]bool{
	"response.completed": true, "response.incomplete": true, "response.failed": true, "response.cancelled": true,
}

// finalResponse returns the response that the last event of a stream has.
func finalResponse(stream verdict.Received) verdict.Received {
	return eachEvent(stream, func(data []byte, first bool) *verdict.Received {
		var event struct {
			Type     string
			Response json.RawMessage
		}
		var answer verdict.Received
		switch err := json.Unmarshal(data, &event); {
		case err != nil:
			answer = line.Unreadable(stream, "an event of the stream is no JSON object")
		case event.Type == "error":
			answer = line.Broken(stream, fmt.Appendf(nil, `{"error":%s}`, data), first)
		case finalEvents[event.Type]:
			answer = line.Whole(stream, event.Response)
		default:
			return nil
		}
		return &answer
	})
}

// text is a text that grows.
type text struct{ strings.Builder }

// MarshalJSON writes the text.
func (t *text) MarshalJSON() ([]byte, error) { return plainJSON(t.String()) }

// plainJSON writes a value with its characters as they are.
func plainJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
