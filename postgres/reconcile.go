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

// UnknownCount is how many attempts on a provider are unknown for how long.
type UnknownCount struct {
	Provider string
	Age      string // since they started: under_1m, under_10m, under_1h, under_1d or older
	Attempts int
}

// CountUnknown returns the numbers of unknown attempts.
func (s *Store) CountUnknown(ctx context.Context) ([]UnknownCount, error) {
	rows, err := s.pool.Query(ctx, `
		WITH unknown AS (SELECT provider, clock_timestamp() - started_at AS age FROM attempts WHERE state = 'unknown')
		SELECT provider, CASE
			WHEN age < interval '1 minute' THEN 'under_1m' WHEN age < interval '10 minutes' THEN 'under_10m'
			WHEN age < interval '1 hour' THEN 'under_1h' WHEN age < interval '1 day' THEN 'under_1d' ELSE 'older' END, count(*)
		FROM unknown GROUP BY 1, 2`)
	if err != nil {
		return nil, translate("count the unknown", err)
	}
	counts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[UnknownCount])
	return counts, translate("count the unknown", err)
}
