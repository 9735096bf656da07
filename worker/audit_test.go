package worker_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

func TestTenAtOnceMakeEachScheduleOnce(t *testing.T) {
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	temporal := dial(t, address, namespace, nil)
	queue := uuid.NewString()
	var group errgroup.Group
	for range 10 {
		group.Go(func() error { return workflows.EnsureSchedules(t.Context(), temporal, queue) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, id := range workflows.ScheduleIDs(queue) {
		there := describe(t, temporal, id)
		if there.Schedule.Policy.Overlap != enumspb.SCHEDULE_OVERLAP_POLICY_SKIP || there.Schedule.Spec.Intervals[0].Every != time.Hour {
			t.Errorf("%s: %+v", id, there.Schedule)
		}
	}
}

func TestPausedScheduleStaysPaused(t *testing.T) {
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	temporal := dial(t, address, namespace, nil)
	queue := uuid.NewString()
	if err := workflows.EnsureSchedules(t.Context(), temporal, queue); err != nil {
		t.Fatal(err)
	}
	id := workflows.ScheduleIDs(queue)[0]
	if err := temporal.ScheduleClient().GetHandle(t.Context(), id).Pause(t.Context(), client.SchedulePauseOptions{Note: "by ana"}); err != nil {
		t.Fatal(err)
	}
	if err := workflows.EnsureSchedules(t.Context(), temporal, queue); err != nil {
		t.Fatal(err)
	}
	if there := describe(t, temporal, id); !there.Schedule.State.Paused || there.Schedule.State.Note != "by ana" {
		t.Errorf("%+v", there.Schedule.State)
	}
}

func describe(t *testing.T, temporal client.Client, id string) *client.ScheduleDescription {
	t.Helper()
	there, err := temporal.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return there
}

func TestScheduledAuditSeesWhatTheScheduledRebuildMends(t *testing.T) {
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	temporal := dial(t, address, namespace, nil)
	database := pgtest.URL(t)
	store, metrics := pgtest.Open(t, database), worker.NewMetrics()
	w, err := worker.New(worker.Config{
		Store: store, Temporal: temporal, Namespace: namespace, Kinds: map[string]onejob.Kind{"ticket": {}}, TaskQueue: uuid.NewString(),
		Drain: 50 * time.Millisecond, Metrics: metrics, Logger: quiet,
	}, worker.WithProvider(provider.Provider{Name: "mine", Adapter: obedient{}, Timeout: time.Second, ListenFor: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.Connect(t, database).Exec(t.Context(), `
		INSERT INTO usage_daily (owner_id, day, currency, cost) VALUES ('o', (now() AT TIME ZONE 'UTC')::date, 'USD', 5)`); err != nil {
		t.Fatal(err)
	}
	run(t, w)
	url := serve(t, worker.Health{Store: store, Temporal: temporal, Metrics: metrics})
	rebuild, audit := workflows.ScheduleIDs(w.TaskQueue())[0], workflows.ScheduleIDs(w.TaskQueue())[1]
	trigger(t, temporal, audit)
	awaitMetric(t, url, `onejob_audit_differences{check="usage_daily"} 1`)
	awaitMetric(t, url, `onejob_audit_worst_ratio +Inf`)
	trigger(t, temporal, rebuild)
	awaitActions(t, temporal, rebuild)
	awaitActions(t, temporal, audit)
	trigger(t, temporal, audit)
	awaitMetric(t, url, `onejob_audit_differences{check="usage_daily"} 0`)
	awaitMetric(t, url, `onejob_audit_worst_ratio 1`)
	awaitMetric(t, url, `onejob_audit_age_seconds`)
}

// trigger runs what is scheduled now, as soon as the schedule is there.
func trigger(t *testing.T, temporal client.Client, id string) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		err := temporal.ScheduleClient().GetHandle(t.Context(), id).Trigger(t.Context(), client.ScheduleTriggerOptions{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// awaitActions waits until the schedule has run and nothing that it started is under way.
func awaitActions(t *testing.T, temporal client.Client, id string) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		there := describe(t, temporal, id)
		if there.Info.NumActions > 0 && len(there.Info.RunningWorkflows) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v", id, there.Info)
		}
	}
}
