package activities

import (
	"testing"
	"time"

	"github.com/onejob/onejob"
)

// What a call says of its provider: the rows are those that would be guessed wrongly.
func TestWhatACallSaysOfItsProvider(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attempt onejob.Attempt
		failed  int // in a row after it, where one failed before
	}{
		{onejob.Attempt{State: onejob.AttemptFailed, Reason: onejob.ReasonRefused, Retryable: true}, 2},
		{onejob.Attempt{State: onejob.AttemptFailed, Reason: onejob.ReasonNotSent, Retryable: true}, 2},
		{onejob.Attempt{State: onejob.AttemptUnknown, Reason: onejob.ReasonTimeout}, 2},
		{onejob.Attempt{State: onejob.AttemptUnknown, Reason: onejob.ReasonServerError}, 2},
		{onejob.Attempt{State: onejob.AttemptFailed, Reason: onejob.ReasonRejected}, 0},
		{onejob.Attempt{State: onejob.AttemptFailed, Reason: onejob.ReasonContractViolation}, 0},
		{onejob.Attempt{State: onejob.AttemptSucceeded}, 0},
		{onejob.Attempt{State: onejob.AttemptRunning}, 1},
		{onejob.Attempt{State: onejob.AttemptUnknown, Reason: onejob.ReasonWorkerShutdown}, 1},
		{onejob.Attempt{State: onejob.AttemptFailed, Reason: onejob.ReasonCircuitOpen, Retryable: true}, 1},
		{onejob.Attempt{State: onejob.AttemptFailed, Reason: onejob.ReasonResolved}, 1},
		{onejob.Attempt{State: onejob.AttemptCancelled, Reason: onejob.ReasonCancelled}, 1},
	} {
		circuits := NewCircuits(CircuitOptions{})
		circuits.failed["primary"] = 1
		circuits.heard(t.Context(), "primary", c.attempt)
		if got := circuits.failed["primary"]; got != c.failed {
			t.Errorf("after %s (%s) %d calls in a row were not served, want %d", c.attempt.State, c.attempt.Reason, got, c.failed)
		}
	}
}

// Its circuits have no store: whoever asks it panics.
func TestCallUnderWayWhenTheCircuitOpenedAsksNobody(t *testing.T) {
	t.Parallel()
	circuits := NewCircuits(CircuitOptions{Failures: 1})
	if isNews := circuits.learn("primary", time.Hour); !isNews {
		t.Error("that the circuit opened was known before")
	}
	circuits.heard(t.Context(), "primary", onejob.Attempt{State: onejob.AttemptUnknown, Reason: onejob.ReasonTimeout})
	if isNews := circuits.learn("primary", time.Hour); isNews {
		t.Error("that it is open is told twice")
	}
	circuits.try("primary")
	if _, known := circuits.count("primary"); known != circuitWasOpen {
		t.Error("the failure of a try is taken for that of a call under way")
	}
}
