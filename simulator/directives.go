package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Directives are the member "simulate" of an input: what shall happen to this request.
// They compose, in the order of a request's life: latency and hold before it is
// executed; execute_then_drop, hold_after, silence and late after that; the rest shapes
// the reply.
type Directives struct {
	// As is the name by which the plan knows the request, in place of the job's ID: a
	// run with other IDs meets the same faults. Alone it leaves the plan in charge.
	As string `json:"as,omitempty"`

	// Only is the provider's name, of the path, that the other directives are for; empty:
	// any. To the others the request has none.
	Only string `json:"only,omitempty"`

	Latency Duration `json:"latency,omitzero"` // of the execution
	Hold    string   `json:"hold,omitempty"`   // received, and not executed until the name is released

	ExecuteThenDrop bool     `json:"execute_then_drop,omitempty"` // executed, then the connection closes without a reply
	HoldAfter       string   `json:"hold_after,omitempty"`        // executed, and not answered until the name is released
	Silence         bool     `json:"silence,omitempty"`           // executed, and not answered until the job's ID (without one: "silence") is released as a name
	Late            Duration `json:"late,omitzero"`               // between the execution and the reply

	Status     int               `json:"status,omitempty"` // of the reply; 0: 200
	Execute    *bool             `json:"execute,omitempty"`
	RetryAfter HeaderText        `json:"retry_after,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       *string           `json:"body,omitempty"`   // of the reply, as it is
	Answer     json.RawMessage   `json:"answer,omitempty"` // the reply's member answer
	Usage      json.RawMessage   `json:"usage,omitempty"`  // the reply's member usage; null: none
	CutBody    bool              `json:"cut_body,omitempty"`
}

// executes says whether the request has its effect. Unless Execute says so, a status by
// which a provider declines (3xx, 4xx, 503, 529) has none.
func (d Directives) executes() bool {
	if d.Execute != nil {
		return *d.Execute
	}
	switch {
	case d.Status == 503, d.Status == 529:
		return false
	}
	return d.Status < 300 || d.Status >= 500
}

// onlyNames says that the directives leave the plan in charge.
func (d Directives) onlyNames() bool {
	text, err := json.Marshal(d)
	if err != nil {
		return false
	}
	named, err := json.Marshal(Directives{As: d.As})
	return err == nil && bytes.Equal(text, named)
}

func (d Directives) check() error {
	if d.Status != 0 && (d.Status < 200 || d.Status > 999) {
		return fmt.Errorf("status %d is none: use 200 to 999", d.Status)
	}
	if d.Latency < 0 || d.Late < 0 {
		return errors.New("latency and late cannot be negative")
	}
	return nil
}

// readDirectives returns the directives in an input; none if it is no object or has no
// member simulate.
func readDirectives(input []byte) (Directives, error) {
	if !json.Valid(input) {
		return Directives{}, errors.New("the body is not JSON")
	}
	var object struct {
		Simulate json.RawMessage `json:"simulate"`
	}
	if json.Unmarshal(input, &object) != nil || object.Simulate == nil {
		return Directives{}, nil
	}
	var d Directives
	strict := json.NewDecoder(bytes.NewReader(object.Simulate))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&d); err != nil {
		return Directives{}, fmt.Errorf("simulate cannot be read: %w", err)
	}
	return d, d.check()
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
