package activities

import (
	"context"
	"time"

	"github.com/onejob/onejob"
)

// UsageWindow is what a rebuild of the summaries covers: the days from the first to the
// last, like 2026-11-30 and by UTC, or, where they are left out, the last so many.
type UsageWindow struct {
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	Days  int    `json:"days,omitempty"`  // where First and Last are left out; today is the last of them
	Owner string `json:"owner,omitempty"` // empty: all
	Done  int    `json:"done,omitempty"`  // entries that earlier runs of the same rebuild counted
}

// UsageDays are the days that one run rebuilds, and what is left for the next run.
type UsageDays struct {
	Days []string     `json:"days"`
	Rest *UsageWindow `json:"rest,omitempty"` // nil: nothing
}

// daysPerRun bounds a run's history.
const daysPerRun = 200

// PlanUsageDays returns the days of the window.
func (a *Activities) PlanUsageDays(ctx context.Context, w UsageWindow) (UsageDays, error) {
	first, last, err := a.window(ctx, w)
	if err != nil {
		return UsageDays{}, TemporalError(err)
	}
	plan := UsageDays{Days: []string{}}
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		if len(plan.Days) == daysPerRun {
			plan.Rest = &UsageWindow{First: day.Format(time.DateOnly), Last: last.Format(time.DateOnly), Owner: w.Owner}
			break
		}
		plan.Days = append(plan.Days, day.Format(time.DateOnly))
	}
	return plan, nil
}

// window reads the days, or asks the database for today: there is one clock.
func (a *Activities) window(ctx context.Context, w UsageWindow) (first, last time.Time, err error) {
	if w.First == "" && w.Last == "" && w.Days != 0 {
		if last, err = a.Store.Today(ctx); err != nil {
			return first, last, err
		}
		first = last.AddDate(0, 0, 1-w.Days)
		return first, last, checkWindow(first, last)
	}
	first, err = time.Parse(time.DateOnly, w.First)
	if err == nil {
		last, err = time.Parse(time.DateOnly, w.Last)
	}
	if err != nil {
		return first, last, onejob.Errorf(onejob.CodeInvalidRequest, "the window has no first and last day like 2026-11-30, nor a number of days: %w", err)
	}
	return first, last, checkWindow(first, last)
}

// checkWindow refuses a window without a day: what looks at nothing finds nothing wrong.
func checkWindow(first, last time.Time) error {
	if last.Before(first) {
		return onejob.Errorf(onejob.CodeInvalidRequest, "the window ends on %s, before it begins on %s: it holds no day",
			last.Format(time.DateOnly), first.Format(time.DateOnly))
	}
	return nil
}

// RebuildUsageDay rebuilds the day of one owner, or where owner is empty of all, and returns
// how many entries it counted. It may be repeated.
func (a *Activities) RebuildUsageDay(ctx context.Context, day, owner string) (int, error) {
	defer heartbeat(ctx, nothingToTell)()
	parsed, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0, TemporalError(onejob.Errorf(onejob.CodeInvalidRequest, "day %q cannot be read: write it like 2026-11-30", day))
	}
	entries, err := a.Store.RebuildUsageDay(ctx, parsed, owner)
	if err == nil {
		a.Logger.Info("rebuilt the usage of a day", "day", day, "owner", owner, "entries", entries)
	}
	return entries, TemporalError(err)
}
