package simulator

import "fmt"

// State is what has become of a call.
type State string

// The states. The last three are final.
const (
	Queued    State = "queued" // not done, and nobody has asked about it yet
	Running   State = "running"
	Succeeded State = "succeeded"
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

func (s State) final() bool { return s == Succeeded || s == Failed || s == Cancelled }

// checkEnd returns an error for a state that is neither final nor left out.
func (s State) checkEnd() error {
	if s == "" || s.final() {
		return nil
	}
	return fmt.Errorf("outcome %q is none: use %s, %s or %s", s, Succeeded, Failed, Cancelled)
}
