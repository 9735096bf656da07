package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Directives say what shall happen to a request. They are the member "simulate" of its
// body, else the JSON in its header Onejob-Simulate. They compose, in the order of a
// request's life: latency and hold before it is executed; execute_then_drop, hold_after,
// silence and late after that; the rest shapes the reply, and what is told of the call
// elsewhere.
type Directives struct {
	// As is the name by which the plan knows the request, in place of the job's ID: a
	// run with other IDs meets the same faults. Alone it leaves the plan in charge.
	As string `json:"as,omitempty"`

	// Only is the provider's name, of the path, that the other directives are for; empty:
	// any. To the others the request has none.
	Only string `json:"only,omitempty"`

	// HonourKey says whether the request's idempotency key is honoured, whatever the plan
	// and the options say.
	HonourKey *bool `json:"honour_key,omitempty"`

	Latency Duration `json:"latency,omitzero"` // of the execution; of an accepted request, of the acceptance
	Hold    string   `json:"hold,omitempty"`   // received, and not executed (accepted) until the name is released

	// Accept answers with a reference, by 202 (in a vendor's format: as that has it), and
	// executes the request behind the connection.
	Accept       bool     `json:"accept,omitempty"`
	LocationOnly bool     `json:"location_only,omitempty"` // the reference of a 202 stands in its header Location only
	RunFor       Duration `json:"run_for,omitzero"`        // from the acceptance to the execution
	RunUntil     string   `json:"run_until,omitempty"`     // accepted, and not executed until the name is released

	ExecuteThenDrop bool     `json:"execute_then_drop,omitempty"` // executed, then the connection closes without a reply
	HoldAfter       string   `json:"hold_after,omitempty"`        // executed, and not answered until the name is released
	Silence         bool     `json:"silence,omitempty"`           // executed, and not answered until the job's ID (without one: "silence") is released as a name
	Late            Duration `json:"late,omitzero"`               // between the execution and the reply

	Status     int               `json:"status,omitempty"` // of the reply; 0: 200, of an accepted request 202
	Execute    *bool             `json:"execute,omitempty"`
	RetryAfter HeaderText        `json:"retry_after,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	ClockSkew  Duration          `json:"clock_skew,omitzero"` // by which the header Date is ahead
	Body       *string           `json:"body,omitempty"`      // of the reply, as it is
	Answer     json.RawMessage   `json:"answer,omitempty"`    // the reply's member answer
	Usage      json.RawMessage   `json:"usage,omitempty"`     // the reply's member usage; null: none
	Error      json.RawMessage   `json:"error,omitempty"`     // the reply's member error, also of a 2xx
	CutBody    bool              `json:"cut_body,omitempty"`
	ErrorCode  string            `json:"error_code,omitempty"` // of the error that a reply or an outcome tells

	// In a vendor's format: the model that served the call, how the answer ends (length,
	// content_filter, refusal, tool_calls, empty; else in the vendor's own word), and its
	// stream: without its last so many events, broken in the middle by an error of that
	// code, held in the middle until the name is released.
	Model       string `json:"model,omitempty"`
	End         string `json:"end,omitempty"`
	CutStream   int    `json:"cut_stream,omitempty"`
	StreamError string `json:"stream_error,omitempty"`
	HoldStream  string `json:"hold_stream,omitempty"`

	// Outcome is what look-ups and callbacks tell of the executed call: succeeded (the
	// default), failed or cancelled.
	Outcome  State     `json:"outcome,omitempty"`
	LookUp   *LookUps  `json:"look_up,omitempty"`
	Cancel   *Cancels  `json:"cancel,omitempty"`
	Callback *Callback `json:"callback,omitempty"` // of a request with the header Onejob-Callback
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

// answersAtOnce says whether a reply is under way as soon as the request is executed.
func (d Directives) answersAtOnce() bool {
	return d.HoldAfter == "" && !d.Silence && d.Late == 0
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
	if d.Latency < 0 || d.Late < 0 || d.RunFor < 0 || d.CutStream < 0 {
		return errors.New("latency, late, run_for and cut_stream cannot be negative")
	}
	for _, status := range d.statuses() {
		if status != 0 && (status < 200 || status > 999) {
			return fmt.Errorf("status %d is none: use 200 to 999", status)
		}
	}
	if d.Callback != nil {
		if err := d.Callback.check(); err != nil {
			return err
		}
	}
	return d.Outcome.checkEnd()
}

// statuses are all those that the directives ask for.
func (d Directives) statuses() []int {
	all := []int{d.Status}
	if d.LookUp != nil {
		all = append(all, d.LookUp.Status)
	}
	if d.Cancel != nil {
		all = append(all, d.Cancel.Status)
	}
	return all
}
