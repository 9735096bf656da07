package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// RebuildUsage computes the summaries of each day from the first to the last anew, of one
// owner or, where owner is empty, of all. Each day is a transaction of its own, after which
// each is called with the number of ledger entries that it counted.
func (s *Store) RebuildUsage(ctx context.Context, first, last time.Time, owner string, each func(day time.Time, entries int)) error {
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		entries, err := s.RebuildUsageDay(ctx, day, owner)
		if err != nil {
			return err
		}
		each(day, entries)
	}
	return nil
}

// RebuildUsageDay replaces the day's rows of every summary by sums over the ledger, and
// claims for their consumers every message whose entry it counted: one that is still under
// way is not added again. It returns the number of entries, and may be repeated at will.
//
// It is exact beside consumers and writers, and needs no pause. A consumer holds the day's
// lock, shared, from before it looks at its claims until its effect and its claims are
// committed; the rebuild holds it alone. So when the rebuild reads the ledger no consumer
// is between reading its claims and adding, what consumers committed is visible and is
// replaced, and the next one sees the rebuild's claims. One set of entries, read by one
// statement, makes both the sums and the claims. An entry that is committed later is in
// neither: its claim is pending, and its consumers add it to the new rows.
func (s *Store) RebuildUsageDay(ctx context.Context, day time.Time, owner string) (entries int, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, rebuildTx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockUsageDay, day); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, takeEntries, day, owner)
		if err != nil {
			return err
		}
		entries = int(tag.RowsAffected())
		if _, err := tx.Exec(ctx, `ANALYZE rebuilt`); err != nil {
			return err
		}
		if err := replaceSummaries(ctx, tx, day, owner); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, claimRebuilt, summaryGroups())
		return err
	})
	return entries, translate("rebuild the usage of "+day.Format(time.DateOnly), err)
}

// rebuildTx reads what is committed when a statement starts: under any other isolation the
// entries would be those of before the wait for the lock.
var rebuildTx = pgx.TxOptions{BeginQuery: "begin isolation level read committed; set local idle_in_transaction_session_timeout = '5s'"}

// lockUsageDay keeps consumers of the day's entries out, until the transaction ends.
const lockUsageDay = `SELECT pg_advisory_xact_lock(` + usageDayKey + `) FROM (SELECT $1::date AS day) d`

// takeEntries is the one look at the ledger.
const takeEntries = `
	CREATE TEMPORARY TABLE rebuilt ON COMMIT DROP AS
	SELECT * FROM usage_entries WHERE day = $1 AND ($2 = '' OR owner_id = $2)`

// summary is a table of sums over the ledger. Its consumer group has its name.
type summary struct {
	table string
	by    string // the columns of its key beside owner, day and currency
}

var summaries = []summary{{"usage_daily", ""}, {"usage_by_model", ", provider, model"}, {"usage_by_kind", ", kind"}}

func summaryGroups() (groups []string) {
	for _, s := range summaries {
		groups = append(groups, s.table)
	}
	return groups
}

// measures are the columns that are summed up.
const (
	measures    = `calls, jobs, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens, cost, charged, credited`
	measureSums = `sum(calls), sum(jobs), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens), sum(reasoning_tokens), sum(cost), sum(charged), sum(credited)`
)

// replaceSummaries also drops the rows of whom the ledger has nothing.
func replaceSummaries(ctx context.Context, tx pgx.Tx, day time.Time, owner string) error {
	for _, s := range summaries {
		if _, err := tx.Exec(ctx, `DELETE FROM `+s.table+` WHERE day = $1 AND ($2 = '' OR owner_id = $2)`, day, owner); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, fmt.Sprintf(`
			INSERT INTO %[1]s (owner_id, day, currency%[2]s, %[3]s)
			SELECT owner_id, day, currency%[2]s, %[4]s FROM rebuilt GROUP BY owner_id, day, currency%[2]s`,
			s.table, s.by, measures, measureSums)); err != nil {
			return err
		}
	}
	return nil
}

// claimRebuilt makes the claims on the counted messages done: pending and dead ones, with
// their tries, and those that are not there yet, since a group that subscribes later hears
// of old messages too. Done ones stay as they are and are not even locked; a message that
// retention took has no claims. Claims are locked in the order of their key.
const claimRebuilt = `
	INSERT INTO inbox AS claim (consumer_group, message_key, owner_id, state, done_at, done_by)
	SELECT g.consumer_group, r.message_key, r.owner_id, 'done', clock_timestamp(), 'rebuild'
	FROM unnest($1::text[]) AS g (consumer_group) CROSS JOIN rebuilt r
	JOIN outbox m ON m.message_key = r.message_key AND m.owner_id = r.owner_id
	LEFT JOIN inbox i ON i.consumer_group = g.consumer_group AND i.message_key = r.message_key
	WHERE i.state IS DISTINCT FROM 'done'
	ORDER BY g.consumer_group COLLATE "C", r.message_key
	ON CONFLICT (consumer_group, message_key) DO UPDATE
	SET state = 'done', done_at = clock_timestamp(), done_by = 'rebuild' WHERE claim.state <> 'done'`

// Today returns the day that it is by the database's clock, in UTC.
func (s *Store) Today(ctx context.Context) (day time.Time, err error) {
	err = s.pool.QueryRow(ctx, `SELECT (now() AT TIME ZONE 'UTC')::date`).Scan(&day)
	return day, translate("read the day", err)
}
