package activities

import (
	"cmp"
	"context"

	"github.com/onejob/onejob/postgres"
)

// AuditWindow is what a scheduled audit covers: the last so many days.
type AuditWindow struct {
	Days int `json:"days"` // default [AuditedDays]
}

// AuditedDays are what the scheduled audit covers: more than late entries reach, so that what
// is found is not forgotten with the day.
const AuditedDays = 31

// AuditOutcome is what an audit found, in numbers. 'onejob audit' prints each finding.
type AuditOutcome struct {
	Differences int            `json:"differences"`
	Warnings    int            `json:"warnings"`
	WorstRatio  string         `json:"worst_ratio"`
	Found       map[string]int `json:"found"` // by check, where there is any
}

// Audit audits the last days and shows what it found in the log and the gauges. A window
// without a day is refused: an audit of nothing would find nothing.
func (a *Activities) Audit(ctx context.Context, w AuditWindow) (AuditOutcome, error) {
	defer heartbeat(ctx, nothingToTell)()
	today, err := a.Store.Today(ctx)
	if err != nil {
		return AuditOutcome{}, TemporalError(err)
	}
	scope := postgres.AuditScope{First: today.AddDate(0, 0, 1-cmp.Or(w.Days, AuditedDays)), Last: today, Retention: a.Retention}
	if err := checkWindow(scope.First, scope.Last); err != nil {
		return AuditOutcome{}, TemporalError(err)
	}
	audit, err := a.Store.Audit(ctx, scope, nil)
	if err != nil {
		return AuditOutcome{}, TemporalError(err)
	}
	a.Observer.Audited(audit)
	outcome := AuditOutcome{Differences: audit.Differences, Warnings: audit.Warnings, WorstRatio: audit.WorstRatio, Found: map[string]int{}}
	for _, check := range audit.Checks {
		if check.Count > 0 {
			outcome.Found[check.Name] = check.Count
			a.Logger.Warn("the audit found what should not be: run 'onejob audit'", "check", check.Name, "severity", check.Severity, "count", check.Count, "first", check.Findings[0].IDs)
		}
	}
	return outcome, nil
}
