package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob/activities"
)

// RebuiltUsage is what a rebuild counted.
type RebuiltUsage struct {
	Entries int `json:"entries"`
}

// UsageRebuild rebuilds the summaries of the window from the ledger, day by day: what is done
// stays done if it is interrupted.
func (w *Workflows) UsageRebuild(ctx workflow.Context, window activities.UsageWindow) (RebuiltUsage, error) {
	var a *activities.Activities
	var plan activities.UsageDays
	if err := runLong(ctx, "plan the days", a.PlanUsageDays, &plan, window); err != nil {
		return RebuiltUsage{}, err
	}
	total := window.Done
	for _, day := range plan.Days {
		var entries int
		if err := runLong(ctx, fmt.Sprintf("rebuild %s", day), a.RebuildUsageDay, &entries, day, window.Owner); err != nil {
			return RebuiltUsage{}, err
		}
		total += entries
	}
	if plan.Rest != nil {
		plan.Rest.Done = total
		return RebuiltUsage{}, workflow.NewContinueAsNewError(ctx, UsageRebuildType, *plan.Rest)
	}
	return RebuiltUsage{Entries: total}, nil
}

// runLong runs an activity of the database that may be repeated and may take long.
func runLong(ctx workflow.Context, summary string, activity, result any, args ...any) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: longestStatement,
		HeartbeatTimeout:    time.Minute,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute},
		Summary:             summary,
	})
	return workflow.ExecuteActivity(ctx, activity, args...).Get(ctx, result)
}

// longestStatement is what a day's rebuild, or an audit, gets.
const longestStatement = 2 * time.Hour
