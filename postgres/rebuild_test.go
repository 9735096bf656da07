package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

var (
	firstDay  = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	secondDay = firstDay.AddDate(0, 0, 1)
)

// consume has the group's consumer take a small batch, and returns how many messages it had.
func (r rig) consume(ctx context.Context, group string) (int, error) {
	all := postgres.Consumers()
	c := all[slices.IndexFunc(all, func(c messages.Consumer) bool { return c.Group == group })]
	c.Batch = 20
	taken, err := r.store.TakeBatch(ctx, c)
	if err != nil || len(taken.Batch) == 0 {
		return 0, err
	}
	applied, err := r.store.ApplyBatch(ctx, c, taken.Batch)
	if err == nil && applied.Failed > 0 {
		err = errors.New(applied.Reason)
	}
	return len(taken.Batch), err
}

// drain runs the consumers of all summaries until nothing is pending.
func (r rig) drain(t testing.TB) {
	t.Helper()
	for _, group := range usageGroups {
		for done := 1; done > 0; {
			var err error
			if done, err = r.consume(t.Context(), group); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// rebuild rebuilds both days.
func (r rig) rebuild(t testing.TB, owner string) (entries int) {
	t.Helper()
	err := r.store.RebuildUsage(t.Context(), firstDay, secondDay, owner, func(_ time.Time, n int) { entries += n })
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func (r rig) book(t testing.TB, first, last int, at time.Time) {
	t.Helper()
	if err := r.bookWork(t.Context(), first, last, at.Format(time.RFC3339)); err != nil {
		t.Fatal(err)
	}
}

func TestRebuildIsExactBesideConsumersAndWriters(t *testing.T) {
	t.Parallel()
	const jobs, writers = 900, 3
	r := newRig(t)
	r.workedJobs(t, jobs)
	r.subscribeUsage(t)
	group, ctx := errgroup.WithContext(t.Context())
	var writing, consuming atomic.Int32
	writing.Store(writers)
	for w := range writers {
		group.Go(func() error {
			defer writing.Add(-1)
			return r.writeShare(ctx, 1+w*jobs/writers, (w+1)*jobs/writers)
		})
	}
	for _, name := range append(usageGroups, usageGroups...) {
		consuming.Add(1)
		group.Go(func() error {
			defer consuming.Add(-1)
			return r.consumeUntilDrained(ctx, name, &writing)
		})
	}
	for range 2 {
		group.Go(func() error {
			for range 8 { // without end they would leave the consumers nothing
				if consuming.Load() == 0 {
					return nil
				}
				if err := r.store.RebuildUsage(ctx, firstDay, secondDay, "", func(time.Time, int) {}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	r.mustEqualLedger(t)
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE state = 'done'`); n != 2*jobs*len(usageGroups) {
		t.Errorf("%d claims are done, want %d", n, 2*jobs*len(usageGroups))
	}
	for _, by := range []string{"consumer", "rebuild"} {
		if n := r.count(t, `SELECT count(*) FROM inbox WHERE done_by = $1`, by); n == 0 {
			t.Errorf("nothing was claimed by a %s: the test shows nothing", by)
		}
	}
}

// writeShare books the jobs in small transactions, now on one day and now on the other.
func (r rig) writeShare(ctx context.Context, first, last int) error {
	for n := first; n <= last; {
		until := min(n+rand.IntN(4), last)
		day := firstDay.Add(time.Duration(rand.IntN(2)) * 24 * time.Hour)
		if err := r.bookWork(ctx, n, until, day.Format(time.RFC3339)); err != nil {
			return err
		}
		n = until + 1
	}
	return nil
}

func (r rig) consumeUntilDrained(ctx context.Context, group string, writing *atomic.Int32) error {
	for {
		last := writing.Load() == 0
		done, err := r.consume(ctx, group)
		if err != nil {
			return err
		}
		if last && done == 0 {
			var pending bool
			err := r.hand.QueryRow(ctx, `SELECT EXISTS (SELECT FROM inbox WHERE consumer_group = $1 AND state = 'pending')`, group).Scan(&pending)
			if err != nil || !pending {
				return err
			}
		}
	}
}

func TestRebuiltEntriesAreNotAddedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 20)
	r.subscribeUsage(t)
	r.book(t, 1, 10, firstDay)
	r.fixtures(t, `UPDATE inbox SET state = 'dead', tries = 7, last_error = 'no' WHERE message_key = 'attempt.cost:3'`)
	if n := r.rebuild(t, ""); n != 20 {
		t.Errorf("%d entries rebuilt, want 20", n)
	}
	r.mustEqualLedger(t)
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE state = 'done' AND done_by = 'rebuild'`); n != 60 {
		t.Errorf("%d claims by the rebuild, want 60", n)
	}
	if n := r.count(t, `SELECT min(tries) FROM inbox WHERE message_key = 'attempt.cost:3'`); n != 7 {
		t.Errorf("%d tries are left of 7", n)
	}
	r.book(t, 11, 20, secondDay)
	r.drain(t)
	r.mustEqualLedger(t)
	r.rebuild(t, "")
	r.mustEqualLedger(t)
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE done_by = 'consumer'`); n != 60 {
		t.Errorf("%d claims by consumers are left of 60", n)
	}
}

func TestRebuildClaimsForGroupsThatComeLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 10)
	r.book(t, 1, 10, firstDay)
	r.rebuild(t, "")
	r.subscribeUsage(t)
	if _, err := r.hand.Exec(t.Context(), `
		INSERT INTO inbox (consumer_group, message_key, owner_id) SELECT g, message_key, owner_id FROM outbox, unnest($1::text[]) g
		ON CONFLICT DO NOTHING`, usageGroups); err != nil {
		t.Fatal(err)
	}
	r.drain(t)
	r.mustEqualLedger(t)
}

func TestRebuildDropsRowsThatTheLedgerHasNotAndNoOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 9)
	r.book(t, 1, 9, firstDay)
	for _, sql := range []string{
		`INSERT INTO usage_daily (owner_id, day, currency, cost) VALUES ('owner-1', '2026-11-28', 'EUR', 5), ('nobody', '2026-11-29', 'USD', 5), ('nobody', '2026-12-24', 'USD', 5)`,
		`INSERT INTO usage_by_model (owner_id, day, currency, provider, model, cost) VALUES ('owner-1', '2026-11-28', 'USD', 'gone', '', 5)`,
		`INSERT INTO usage_by_kind (owner_id, day, currency, kind, cost) VALUES ('owner-1', '2026-11-28', 'USD', 'gone', 5)`,
	} {
		r.fixtures(t, sql)
	}
	r.rebuild(t, "")
	if n := r.count(t, `SELECT count(*) FROM usage_daily WHERE day = '2026-12-24'`); n != 1 {
		t.Error("a row of a day outside of the window is gone")
	}
	r.fixtures(t, `DELETE FROM usage_daily WHERE day = '2026-12-24'`)
	r.mustEqualLedger(t)
}

func TestRebuildOfOneOwnerLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 9)
	r.subscribeUsage(t)
	r.book(t, 1, 9, firstDay)
	r.fixtures(t, `INSERT INTO usage_daily (owner_id, day, currency, cost) VALUES ('owner-0', '2026-11-28', 'EUR', 5)`)
	if n := r.rebuild(t, "owner-1"); n != 6 {
		t.Errorf("%d entries rebuilt, want 6", n)
	}
	if n := r.count(t, `SELECT count(*) FROM usage_daily WHERE owner_id <> 'owner-1'`); n != 1 {
		t.Errorf("others have %d rows and had one", n)
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE owner_id <> 'owner-1' AND state = 'done'`); n != 0 {
		t.Errorf("%d messages of others were claimed", n)
	}
	r.fixtures(t, `DELETE FROM usage_daily WHERE currency = 'EUR'`)
	r.drain(t)
	r.mustEqualLedger(t)
}

func TestLateEntriesLandInTheirDay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 6)
	r.subscribeUsage(t)
	r.book(t, 1, 3, secondDay)
	r.rebuild(t, "")
	r.book(t, 4, 6, firstDay.Add(24*time.Hour-time.Microsecond))
	r.drain(t)
	r.mustEqualLedger(t)
	if n := r.count(t, `SELECT sum(calls) FROM usage_daily WHERE day = $1`, firstDay); n != 3 {
		t.Errorf("%d calls on the day before, want 3", n)
	}
}

func TestRebuildOutlivesRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 6)
	r.subscribeUsage(t)
	r.book(t, 1, 6, firstDay)
	r.drain(t)
	if _, err := r.hand.Exec(t.Context(), `DELETE FROM outbox WHERE message_key LIKE '%:2'`); err != nil {
		t.Fatal(err)
	}
	r.rebuild(t, "")
	r.mustEqualLedger(t)
}
