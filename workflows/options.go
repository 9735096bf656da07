package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// recordMargin is what recording the outcome gets after listening ended, before Temporal
// gives up on the attempt's activity. Even then the activity goes on.
const recordMargin = 10 * time.Minute

// attemptOptions lets the attempt's activity run once, for as long as it listens.
func (j *jobRun) attemptOptions(step onejob.Step) workflow.ActivityOptions {
	options := workflow.ActivityOptions{
		StartToCloseTimeout: time.Duration(j.ref.ListenFor) + recordMargin,
		HeartbeatTimeout:    j.heartbeatTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             fmt.Sprintf("attempt %d · %s · %s", step.Number, step.Role, step.Provider),
	}
	if slices.Contains(j.ref.Limited, step.Provider) {
		options.TaskQueue, options.ScheduleToStartTimeout = ProviderQueue(j.queue, step.Provider), longestQueueing
	}
	return options
}

// longestQueueing is when an attempt that waits for a limited provider is handed out anew, in
// the common queue: nobody may poll its own any more, since the configuration has changed.
const longestQueueing = 24 * time.Hour

// registerOptions have no end: while Postgres is away, the run waits for it.
var registerOptions = workflow.LocalActivityOptions{
	StartToCloseTimeout: 5 * time.Second,
	RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: time.Minute},
	Summary:             "register the job",
}

// durable runs an activity that may be repeated: as a local one, which costs a single
// history event, and only if Postgres does not answer within a few tries as a regular
// one, retried until it does and visible in the Web UI.
func durable[T any](ctx workflow.Context, summary string, activity any, args ...any) (result T, err error) {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    3 * time.Second,
		ScheduleToCloseTimeout: 5 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 3},
		Summary:                summary,
	})
	err = workflow.ExecuteLocalActivity(local, activity, args...).Get(ctx, &result)
	if err == nil || final(err) {
		return result, err
	}
	regular := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second},
		Summary:             summary + " · again, until it is recorded",
	})
	err = workflow.ExecuteActivity(regular, activity, args...).Get(ctx, &result)
	return result, err
}

// final says that repeating would not help.
func final(err error) bool {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && app.NonRetryable() || temporal.IsCanceledError(err)
}

// jobFailed is how the run of a failed job ends.
func jobFailed(jobID string, why *onejob.JobError) error {
	if why == nil {
		why = &onejob.JobError{}
	}
	failed := onejob.Errorf(onejob.CodeJobFailed, "job %s failed (%s): %s", jobID, why.Code, why.Message)
	return activities.TemporalError(failed)
}
