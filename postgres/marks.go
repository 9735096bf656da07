package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Mark is how far a job is: it changes with every change that people and programs see.
type Mark struct {
	JobID    string
	Status   onejob.Status
	Version  int
	Attempts string // a letter for each attempt's state, by number
}

// MarkJobs returns the marks of the jobs, in one statement of one moment. A job that does not
// exist has none.
func (s *Store) MarkJobs(ctx context.Context, ids []string) ([]Mark, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT j.id::text, j.status, j.version, coalesce((
			SELECT string_agg(left(a.state, 2) || CASE WHEN a.discarded_at IS NOT NULL THEN '-' WHEN a.decided_at IS NOT NULL THEN '+' ELSE '.' END, '' ORDER BY a.number)
			FROM attempts a WHERE a.job_id = j.id), '')
		FROM jobs j WHERE j.id = ANY ($1::uuid[])`, ids)
	if err != nil {
		return nil, translate("look at the jobs", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Mark])
	return marks, translate("look at the jobs", err)
}
