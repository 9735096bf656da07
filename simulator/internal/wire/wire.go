// Package wire words answers as vendors do: chat completions and responses of OpenAI,
// messages and message batches of Anthropic, with their streams and their errors. The
// shapes are those that the vendors document and that their SDKs read (openai-go v3.99,
// anthropic-sdk-go v2.15). It knows nothing of faults, calls or connections.
package wire

import (
	"bytes"
	"encoding/json"
	"time"
)

// Answer is what a provider says, before it is worded.
type Answer struct {
	ID     string
	Model  string
	Status string // of a response: OpenAI's word; empty: by its end
	Asked  time.Time
	Ended  time.Time // zero: not yet
	Text   string
	End    End
	Usage  *Usage          // nil: none is told
	Raw    json.RawMessage // the usage in the vendor's own words, in place of Usage
	Error  *Error          // of a failed response

	Background bool
}

// End is why an answer ends. One that is not named here is told as it is, where the
// vendor has a reason for the end.
type End string

// The ends.
const (
	Complete      End = ""
	Length        End = "length"         // the text is cut in the middle
	ContentFilter End = "content_filter" // no text
	Refusal       End = "refusal"        // the text is a refusal
	ToolCalls     End = "tool_calls"     // no text, and a tool called
	Empty         End = "empty"          // nothing at all
)

// Usage is counted as onejob counts: cached tokens are among the input, reasoning tokens
// among the output.
type Usage struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"`
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_tokens"`
}

// said returns the text that stands in the answer.
func (a Answer) said() string {
	switch a.End {
	case Length:
		return halves(a.Text)[0]
	case ContentFilter, ToolCalls, Empty:
		return ""
	case Refusal:
		return "I cannot help with that."
	}
	return a.Text
}

// halves cuts a text in two that are not empty, where it can.
func halves(text string) []string {
	runes := []rune(text)
	if len(runes) < 2 {
		return []string{text}
	}
	return []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

// Tools of a tool call.
const (
	toolName      = "simulated_tool"
	toolArguments = `{"simulated":true}`
)

// Event is one event of a stream.
type Event struct {
	Name string // empty: none is told
	Data []byte
}

// Text returns the event as it stands in a stream.
func (e Event) Text() []byte {
	var text bytes.Buffer
	if e.Name != "" {
		text.WriteString("event: " + e.Name + "\n")
	}
	text.WriteString("data: ")
	text.Write(e.Data)
	text.WriteString("\n\n")
	return text.Bytes()
}

type object = map[string]any

// marshal encodes a value that has no way to fail.
func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts, numbers and checked JSON
	}
	return text
}

func seconds(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.Unix()
}
