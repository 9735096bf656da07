package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onejob/onejob/simulator/internal/wire"
)

// format is the wire format of one request: how its answers are worded.
type format interface {
	read(input []byte) (format, error)   // of the request that input is the body of
	named(provider string) string        // the provider's name, where the path has none
	idPrefix() string                    // of the simulator's references
	refPath() string                     // between the URL of a call and its reference, in the URL of its look-up
	model() string                       // that was asked for
	inside(input []byte) json.RawMessage // directives that do not stand at the body's top
	modelNotFound() string               // code of the error
	accepts(directed bool) bool          // whether the answer is a reference
	body(r *run) []byte                  // of a success
	events(r *run) []wire.Event          // of a success; nil: it is no stream
	accepted(r *run) reply               // to a call that is executed later
	failure(r *run, status int) []byte   // the body of an answer with an error

	// Of an answer; id is the vendor's name for the request.
	envelope(e wire.Error, id string) []byte // the body of one that is about no call
	header(id string) map[string]string
}

// asked is what a vendor's request may say, as far as the answer depends on it.
type asked struct {
	Model         string `json:"model"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Background bool `json:"background"`

	// Where JSON is asked for.
	ResponseFormat formatOption                  `json:"response_format"`
	Text           struct{ Format formatOption } `json:"text"`
	OutputConfig   struct{ Format formatOption } `json:"output_config"`
}

type formatOption struct {
	Type string `json:"type"`
}

// readAsked reads a vendor's request.
func readAsked(input []byte) (asked, error) {
	var a asked
	if err := json.Unmarshal(input, &a); err != nil {
		return a, fmt.Errorf("the body cannot be read: %w", err)
	}
	if a.Model == "" {
		return a, errors.New("you must provide a model parameter")
	}
	return a, nil
}

func (a asked) model() string { return a.Model }

func (a asked) inside([]byte) json.RawMessage { return nil }

// text is what the answer says: the directive's text, or its JSON as a text.
func (a asked) text(c call) string {
	var text string
	switch {
	case c.Answer == nil && a.wantsJSON():
		return `{"answer":"done"}`
	case c.Answer == nil:
		return "done"
	case json.Unmarshal(c.Answer, &text) == nil:
		return text
	}
	return string(c.Answer)
}

func (a asked) wantsJSON() bool {
	for _, option := range []formatOption{a.ResponseFormat, a.Text.Format, a.OutputConfig.Format} {
		if strings.HasPrefix(option.Type, "json") {
			return true
		}
	}
	return false
}

// answer is the run's answer before it is worded.
func (a asked) answer(r *run) wire.Answer {
	answer := wire.Answer{
		ID: r.id, Model: a.Model, Asked: r.made, Ended: r.made, Text: a.text(r.call), End: wire.End(r.End), Background: a.Background,
	}
	if r.Model != "" {
		answer.Model = r.Model
	}
	answer.Usage, answer.Raw = r.vendorUsage()
	return answer
}

// vendorUsage is what the call used: counts, or the vendor's own words for them, or
// nothing.
func (c call) vendorUsage() (*wire.Usage, json.RawMessage) {
	if string(c.Usage) == "null" {
		return nil, nil
	}
	counts := wire.Usage{Input: int64(1 + c.length/bytesPerToken), Output: tokensPerAnswer}
	if c.Usage == nil {
		return &counts, nil
	}
	counts = wire.Usage{}
	if decodeStrictly(c.Usage, &counts) == nil {
		return &counts, nil
	}
	return nil, c.Usage
}

// failing is the error that a run's answer tells.
func (c call) failing(status int) wire.Error {
	return wire.Error{Status: status, Code: c.ErrorCode, Message: "simulated"}
}

// broken cuts a stream in its middle and ends it with an error.
func broken(events []wire.Event, fails func(number int) wire.Event) []wire.Event {
	half := len(events) / 2
	return append(events[:half:half], fails(half))
}

// withError puts the directive's error, as it is, in the place of a format's own, and
// usage beside it if the directives tell some.
func (c call) withError(body []byte) []byte {
	var envelope map[string]json.RawMessage
	if c.Error == nil && c.Usage == nil || json.Unmarshal(body, &envelope) != nil {
		return body
	}
	if c.Error != nil {
		envelope["error"] = c.Error
	}
	if c.Usage != nil {
		envelope["usage"] = c.Usage
	}
	return marshal(envelope)
}
