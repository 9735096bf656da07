package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// ClaimForReconcile returns open jobs that nobody has watched for a while, at most limit,
// and puts off their next turn by again. Two callers at once get different jobs.
func (s *Store) ClaimForReconcile(ctx context.Context, again time.Duration, limit int) ([]onejob.Job, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS MATERIALIZED (
			SELECT id AS due_id FROM jobs WHERE status IN ('accepted', 'running', 'unknown') AND reconcile_at <= now()
			ORDER BY reconcile_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED)
		UPDATE jobs SET reconcile_at = clock_timestamp() + $1::bigint * interval '1 millisecond'
		FROM due WHERE id = due_id
		RETURNING `+jobColumns, milliseconds(again), limit)
	if err != nil {
		return nil, translate("claim jobs to reconcile", err)
	}
	jobs, err := pgx.CollectRows(rows, scanJob)
	return jobs, translate("claim jobs to reconcile", err)
}

// CountUnknown returns the number of unknown attempts by provider.
func (s *Store) CountUnknown(ctx context.Context) (map[string]int, error) {
	rows, err := s.pool.Query(ctx, `SELECT provider, count(*) FROM attempts WHERE state = 'unknown' GROUP BY provider`)
	if err != nil {
		return nil, translate("count the unknown", err)
	}
	counts := map[string]int{}
	var provider string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&provider, &n}, func() error {
		counts[provider] = n
		return nil
	})
	return counts, translate("count the unknown", err)
}
