package postgres_test

import (
	"testing"

	"github.com/onejob/onejob/postgres"
)

func (r rig) usage(t testing.TB, f postgres.UsageFilter) postgres.Usage {
	t.Helper()
	usage, err := r.store.ReadUsage(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return usage
}

func TestUsageIsShownBesideTheLedger(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	for by, rows := range map[postgres.UsageBy]int{postgres.UsageByDay: 2, postgres.UsageByModel: 2, postgres.UsageByKind: 2} {
		usage := r.usage(t, postgres.UsageFilter{Owner: "owner-1", By: by})
		if len(usage.Rows) != rows || len(usage.Totals) != 1 {
			t.Fatalf("by %s: %+v", by, usage)
		}
		total := usage.Totals[0]
		if total.Differs || total.UnderWay != 0 || total.Calls != 4 || total.Jobs != 4 || !total.Equal(total.Ledger) {
			t.Errorf("by %s: %+v", by, total)
		}
	}
	one := r.usage(t, postgres.UsageFilter{Owner: "owner-1", First: secondDay, Last: secondDay, By: postgres.UsageByDay})
	if len(one.Rows) != 1 || one.Rows[0].Day != "2026-11-29" || one.Totals[0].Calls != 2 {
		t.Errorf("of one day: %+v", one)
	}
	if none := r.usage(t, postgres.UsageFilter{Owner: "nobody", By: postgres.UsageByDay}); len(none.Rows)+len(none.Totals) != 0 || none.Rows == nil {
		t.Errorf("of nobody: %+v", none)
	}
}

func TestUsageThatDiffersFromTheLedgerIsMarked(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	r.fixtures(t, `UPDATE usage_daily SET charged = charged * 2.4 WHERE owner_id = 'owner-1'`)
	total := r.usage(t, postgres.UsageFilter{Owner: "owner-1", By: postgres.UsageByDay}).Totals[0]
	if !total.Differs || total.Charged.Cmp(total.Ledger.Charged) <= 0 {
		t.Errorf("%+v", total)
	}
}

func TestUsageTellsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 3)
	r.subscribeUsage(t)
	r.book(t, 1, 3, firstDay)
	total := r.usage(t, postgres.UsageFilter{Owner: "owner-1", By: postgres.UsageByModel}).Totals[0]
	if !total.Differs || total.UnderWay != 2 || total.Calls != 0 || total.Ledger.Calls != 1 {
		t.Errorf("%+v", total)
	}
}
