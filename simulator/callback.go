package simulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Moment is when a callback comes, as seen from the reply.
type Moment string

// The moments.
const (
	Before Moment = "before" // the reply waits for the callback's end
	After  Moment = "after"  // once the reply is written or its connection gone; if none is under way, at once
)

// Callback says that a call's outcome is told to the URL in its header Onejob-Callback,
// and how: signed by Standard Webhooks, and again until it gets a 2xx.
type Callback struct {
	When           Moment   `json:"when,omitempty"`  // empty: [After]
	Delay          Duration `json:"delay,omitzero"`  // before it is sent
	Hold           string   `json:"hold,omitempty"`  // not sent until the name is released
	Times          int      `json:"times,omitempty"` // that it is delivered, under one ID; 0: once
	Tries          int      `json:"tries,omitempty"` // that a delivery has; 0: 3
	WrongSignature bool     `json:"wrong_signature,omitempty"`
	Age            Duration `json:"age,omitzero"` // of its timestamp; negative: it is from the future

	// What it says in place of what look-ups say: two answers that differ.
	Outcome State           `json:"outcome,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Usage   json.RawMessage `json:"usage,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

const (
	mostTimes    = 10
	mostTries    = 10
	defaultTries = 3
)

func (c Callback) check() error {
	switch {
	case c.When != "" && c.When != Before && c.When != After:
		return fmt.Errorf("when %q is no moment: use %s or %s", c.When, Before, After)
	case c.Delay < 0:
		return errors.New("delay cannot be negative")
	case c.Times < 0 || c.Times > mostTimes || c.Tries < 0 || c.Tries > mostTries:
		return fmt.Errorf("times and tries are at most %d and %d", mostTimes, mostTries)
	}
	return c.Outcome.checkEnd()
}

// outcome is what look-ups and callbacks say of a call.
type outcome struct {
	ID     string          `json:"id"`
	Status State           `json:"status"`
	Result json.RawMessage `json:"result,omitempty"` // of a success: the body of the reply
	Usage  json.RawMessage `json:"usage,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

func (s sight) outcome() outcome {
	told := outcome{ID: s.id, Status: s.state}
	switch s.state {
	case Succeeded:
		told.Result, told.Usage, told.Error = s.result(), s.usage(), s.Error
	case Failed:
		told.Usage, told.Error = s.Usage, s.Error
		if told.Error == nil {
			told.Error = marshal(replyError{Code: cmp.Or(s.ErrorCode, "simulated"), Message: "simulated"})
		}
	}
	return told
}

// callbackBody is the body of the call's callback.
func (s sight) callbackBody() []byte {
	own := s.Callback
	said := &run{call: s.call, id: s.id}
	said.Answer, said.Usage, said.Error = prefer(own.Answer, s.Answer), prefer(own.Usage, s.Usage), prefer(own.Error, s.Error)
	return marshal(sight{run: said, state: cmp.Or(own.Outcome, s.state)}.outcome())
}

func prefer(own, general json.RawMessage) json.RawMessage {
	if own != nil {
		return own
	}
	return general
}

// tell delivers the call's callback as often as its directive says.
func (e *era) tell(one *run, replied <-chan struct{}) {
	if one.Callback.When != Before && one.answersAtOnce() && !until(replied, e.ctx, e.ctx) {
		return
	}
	if !e.wait(e.ctx, time.Duration(one.Callback.Delay)) || !e.waitFor(e.ctx, one.Callback.Hold) {
		return
	}
	m := message{id: newID("msg_"), body: e.runs.glance(one).callbackBody()}
	for range max(1, one.Callback.Times) {
		e.deliver(one, m)
	}
}
