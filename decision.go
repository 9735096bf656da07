package onejob

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// DecisionAction is what somebody decides about a job.
type DecisionAction string

// The decisions. Signals, updates, commands and the table decisions share their names.
const (
	DecideStartAttempt   DecisionAction = "start-attempt"   // ask for a new attempt
	DecideCancelAttempt  DecisionAction = "cancel-attempt"  // give the unresolved attempt up
	DecideResolveAttempt DecisionAction = "resolve-attempt" // say what became of it
	DecideCancelJob      DecisionAction = "cancel-job"
)

// Decision is somebody's decision about a job. Every door makes it one of these.
type Decision struct {
	JobID    string          `json:"job_id"`
	Action   DecisionAction  `json:"action"`
	Attempt  int             `json:"attempt,omitempty"`  // its number; 0: the unresolved one
	Provider string          `json:"provider,omitempty"` // of the attempt asked for
	As       AttemptState    `json:"as,omitempty"`       // what a resolved attempt becomes: failed or succeeded
	Result   json.RawMessage `json:"result,omitempty"`   // of one resolved as succeeded
	By       string          `json:"by"`                 // who decides; 1 to 200 bytes
	Reason   string          `json:"reason,omitempty"`   // at most 4096 bytes
	Token    string          `json:"token"`              // the same for the same decision told twice

	Uncertified bool `json:"uncertified,omitempty"` // the attempt is asked for although its provider may have no certificate
}

// Check returns an [ErrInvalidRequest] if nobody could record the decision: who, why, what
// and the result are checked before any row is.
func (d Decision) Check(c Catalog) error {
	if err := CheckSaid(d.By, d.Reason); err != nil {
		return err
	}
	switch {
	case d.Attempt < 0:
		return Errorf(CodeInvalidRequest, "attempt %d does not exist: numbers start at 1", d.Attempt)
	case d.Action == DecideStartAttempt:
		return c.CheckProvider(d.Provider)
	case d.Action != DecideResolveAttempt:
		return nil
	case d.As == AttemptSucceeded && len(d.Result) > 0:
		return c.Limits.CheckResult(d.Result)
	case d.As == AttemptFailed && len(d.Result) == 0:
		return nil
	case d.As == AttemptSucceeded:
		return Errorf(CodeInvalidRequest, "an attempt that succeeded has a result: give the result")
	case d.As == AttemptFailed:
		return Errorf(CodeInvalidRequest, "an attempt that failed has no result: leave it out")
	}
	return Errorf(CodeInvalidRequest, "an attempt is resolved as failed or succeeded, not as %q", d.As)
}

const maxReasonBytes = 4096

// CheckSaid returns an [ErrInvalidRequest] unless by can be who decides something, by the
// rules of [CheckName] and at most [MaxOwnerBytes], and reason why: at most 4096 bytes of
// text, or nothing.
func CheckSaid(by, reason string) error {
	if err := CheckName("by", by, MaxOwnerBytes); err != nil {
		return err
	}
	switch {
	case len(reason) > maxReasonBytes:
		return Errorf(CodeInvalidRequest, "reason has %d bytes: use at most %d", len(reason), maxReasonBytes)
	case !utf8.ValidString(reason) || strings.ContainsRune(reason, 0):
		return Errorf(CodeInvalidRequest, "reason is not text: use UTF-8 without NUL")
	}
	return nil
}
