package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// directivesHeader carries directives where a body cannot.
const directivesHeader = "Onejob-Simulate"

// readDirectives returns the directives of a request: those in its input, else those in
// its header, else none.
func readDirectives(header http.Header, input []byte, f format) (Directives, error) {
	text := inInput(input)
	if text == nil {
		text = f.inside(input)
	}
	if text == nil {
		text = []byte(header.Get(directivesHeader))
	}
	if len(text) == 0 {
		return Directives{}, nil
	}
	var d Directives
	if err := decodeStrictly(text, &d); err != nil {
		return Directives{}, fmt.Errorf("simulate cannot be read: %w", err)
	}
	return d, d.check()
}

// inInput returns the member simulate of an input; nothing if it is no object or has no
// such member.
func inInput(input []byte) json.RawMessage {
	var object struct {
		Simulate json.RawMessage `json:"simulate"`
	}
	if json.Unmarshal(input, &object) != nil {
		return nil // no object
	}
	return object.Simulate
}

func decodeStrictly(text []byte, into any) error {
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	return strict.Decode(into)
}

// Duration is a [time.Duration] that reads and writes as Go does: "1.5s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// HeaderText is a header's value; in JSON a string or a number.
type HeaderText string

// UnmarshalJSON implements [json.Unmarshaler].
func (h *HeaderText) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] != '"' {
		var number json.Number
		err := json.Unmarshal(text, &number)
		*h = HeaderText(number)
		return err
	}
	return json.Unmarshal(text, (*string)(h))
}
