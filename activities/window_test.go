package activities_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// audited keeps what was shown.
type audited struct {
	activities.Observer
	audits []postgres.Audit
}

func (a *audited) Audited(audit postgres.Audit) { a.audits = append(a.audits, audit) }

func TestWindowWithoutADayIsRefused(t *testing.T) {
	t.Parallel()
	var seen audited
	acts := activities.New(activities.Options{Store: pgtest.Store(t), Observer: &seen, Logger: slog.New(slog.DiscardHandler)})
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(acts)
	for name, run := range map[string]func() error{
		"an audit of minus one day": func() error {
			_, err := env.ExecuteActivity(acts.Audit, activities.AuditWindow{Days: -1})
			return err
		},
		"a rebuild of minus one day": func() error {
			_, err := env.ExecuteActivity(acts.PlanUsageDays, activities.UsageWindow{Days: -1})
			return err
		},
		"a rebuild whose last day is before its first": func() error {
			_, err := env.ExecuteActivity(acts.PlanUsageDays, activities.UsageWindow{First: "2026-11-30", Last: "2026-11-29"})
			return err
		},
		"a rebuild of nothing": func() error {
			_, err := env.ExecuteActivity(acts.PlanUsageDays, activities.UsageWindow{})
			return err
		},
	} {
		err := run()
		if app, ok := errors.AsType[*temporal.ApplicationError](err); !ok || app.Type() != "InvalidRequest" || !app.NonRetryable() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(seen.audits) > 0 {
		t.Errorf("an audit of nothing was shown: %+v", seen.audits)
	}
}

func TestAuditLetsMessagesGoThatTheWorkerDeletes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	hand := pgtest.Connect(t, url)
	if _, err := hand.Exec(t.Context(), `
		SET session_replication_role = replica;
		INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by, created_at)
		SELECT 'ledger.topup:' || d, 'o', 'topup', 1, 'USD', 'hand', now() - d * interval '1 day' FROM unnest(ARRAY [1, 10]) d`); err != nil {
		t.Fatal(err)
	}
	store := pgtest.Open(t, url)
	for retention, want := range map[time.Duration]int{0: 2, 5 * 24 * time.Hour: 1} {
		acts := activities.New(activities.Options{Store: store, Observer: &audited{}, Logger: slog.New(slog.DiscardHandler), Retention: retention})
		env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
		env.RegisterActivity(acts)
		value, err := env.ExecuteActivity(acts.Audit, activities.AuditWindow{})
		if err != nil {
			t.Fatal(err)
		}
		var outcome activities.AuditOutcome
		if err := value.Get(&outcome); err != nil || outcome.Found["entries_without_message"] != want {
			t.Errorf("retention %s: %+v, %v", retention, outcome, err)
		}
	}
}

func TestAuditWithoutAWindowCoversAMonth(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	hand := pgtest.Connect(t, url)
	if _, err := hand.Exec(t.Context(), `
		INSERT INTO usage_daily (owner_id, day, currency, cost) SELECT 'o', (now() AT TIME ZONE 'UTC')::date - ago, 'USD', 5 FROM unnest(ARRAY [30, 31]) ago`); err != nil {
		t.Fatal(err)
	}
	var seen audited
	acts := activities.New(activities.Options{Store: pgtest.Open(t, url), Observer: &seen, Logger: slog.New(slog.DiscardHandler)})
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.SetTestTimeout(time.Minute)
	env.RegisterActivity(acts)
	value, err := env.ExecuteActivity(acts.Audit, activities.AuditWindow{})
	if err != nil {
		t.Fatal(err)
	}
	var outcome activities.AuditOutcome
	if err := value.Get(&outcome); err != nil || outcome.Found["usage_daily"] != 1 || len(seen.audits) != 1 {
		t.Errorf("%+v, %v", outcome, err)
	}
}
