package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob/activities"
)

// Audit compares what must agree in the last days and returns what it found, in numbers.
// Differences are no failure of the run: the gauges and the log show them.
func (w *Workflows) Audit(ctx workflow.Context, window activities.AuditWindow) (outcome activities.AuditOutcome, err error) {
	var a *activities.Activities
	err = runLong(ctx, "audit the books", a.Audit, &outcome, window)
	return outcome, err
}
