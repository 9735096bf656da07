package workflows

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob/activities"
)

// rebuiltDays are what is rebuilt every hour: those that late entries may still reach.
const rebuiltDays = 2

// EnsureSchedules makes Temporal run the rebuild, the audit and the renewal of certificates every
// hour, on the task queue.
// Schedules that are there get the spec and the action of this program, and stay paused if
// somebody paused them. Any number of callers may do it at once. It fails with
// [onejob.ErrServerUnreachable] and [onejob.ErrMisconfigured].
func EnsureSchedules(ctx context.Context, c client.Client, taskQueue string) error {
	for _, s := range schedules(taskQueue) {
		if err := ensureSchedule(ctx, c.ScheduleClient(), s); err != nil {
			return translate("make the schedule "+s.ID, err)
		}
	}
	return nil
}

// ScheduleIDs returns the ids of the task queue's schedules.
func ScheduleIDs(taskQueue string) (ids []string) {
	for _, s := range schedules(taskQueue) {
		ids = append(ids, s.ID)
	}
	return ids
}

func schedules(taskQueue string) []client.ScheduleOptions {
	return []client.ScheduleOptions{
		hourly("usage-rebuild/"+taskQueue, 7*time.Minute, &client.ScheduleWorkflowAction{
			Workflow: UsageRebuildType, Args: []any{activities.UsageWindow{Days: rebuiltDays}}, TaskQueue: taskQueue,
			StaticSummary: "rebuild the summaries of the last two days",
		}),
		hourly("audit/"+taskQueue, 22*time.Minute, &client.ScheduleWorkflowAction{
			Workflow: AuditType, Args: []any{activities.AuditWindow{Days: activities.AuditedDays}}, TaskQueue: taskQueue,
			StaticSummary: "compare what must agree",
		}),
		hourly("certificate-renewal/"+taskQueue, 37*time.Minute, &client.ScheduleWorkflowAction{
			Workflow: CertificationRenewalType, TaskQueue: taskQueue,
			StaticSummary: "renew the certificates that expire soon",
		}),
	}
}

// hourly returns a schedule that skips its turn while the run before is under way. Turns that
// were missed are not made up for: the next one covers them.
func hourly(id string, at time.Duration, action *client.ScheduleWorkflowAction) client.ScheduleOptions {
	action.ID = id
	return client.ScheduleOptions{
		ID:            id,
		Spec:          client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: time.Hour, Offset: at}}},
		Action:        action,
		Overlap:       enumspb.SCHEDULE_OVERLAP_POLICY_SKIP,
		CatchupWindow: time.Minute,
	}
}

func ensureSchedule(ctx context.Context, c client.ScheduleClient, s client.ScheduleOptions) error {
	_, err := c.Create(ctx, s)
	if !errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		return err
	}
	return c.GetHandle(ctx, s.ID).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(there client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			schedule := there.Description.Schedule
			schedule.Spec, schedule.Action = &s.Spec, s.Action
			schedule.Policy = &client.SchedulePolicies{Overlap: s.Overlap, CatchupWindow: s.CatchupWindow}
			return &client.ScheduleUpdate{Schedule: &schedule}, nil
		},
	})
}
