package workflows

import (
	"testing"

	"github.com/onejob/onejob"
)

// An activity that Temporal repeats would find its row and not call, by invariant 6's last
// guard; this is the first.
func TestTemporalNeverRepeatsAnAttempt(t *testing.T) {
	t.Parallel()
	j := &jobRun{}
	j.ref.Limited = []string{"limited"}
	for _, provider := range []string{"primary", "limited"} {
		options := j.attemptOptions(onejob.Step{Number: 1, Provider: provider})
		if options.RetryPolicy == nil || options.RetryPolicy.MaximumAttempts != 1 {
			t.Errorf("an attempt on %s is repeated: %+v", provider, options.RetryPolicy)
		}
	}
}
