package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// attemptRow is an attempt with the columns that only statements need.
type attemptRow struct {
	onejob.Attempt
	id         int64
	jobID      string
	jobVersion int
	recordedBy string
}

const attemptColumns = `id, job_id::text, job_version, recorded_by, number, lane, provider, state, reason, detail,
	retryable, retry_after_ms, decided_at, discarded_at, started_at, finished_at`

func scanAttempt(row pgx.CollectableRow) (a attemptRow, err error) {
	var recordedBy, detail *string
	var reason *onejob.Reason
	var retryAfterMs int64
	var decided, discarded, finished *time.Time
	err = row.Scan(&a.id, &a.jobID, &a.jobVersion, &recordedBy, &a.Number, &a.Lane, &a.Provider, &a.State, &reason, &detail,
		&a.Retryable, &retryAfterMs, &decided, &discarded, &a.StartedAt, &finished)
	a.recordedBy, a.Reason, a.Detail = orZero(recordedBy), orZero(reason), orZero(detail)
	a.RetryAfter = onejob.Duration(time.Duration(retryAfterMs) * time.Millisecond)
	a.Decided, a.Discarded = decided != nil, discarded != nil
	a.StartedAt, a.FinishedAt = a.StartedAt.UTC(), orZero(finished).UTC()
	return a, err
}

// readAttempt reads and locks the attempt; its job is locked already. It fails with
// [onejob.ErrNotFound].
func readAttempt(ctx context.Context, tx pgx.Tx, jobID string, number int) (attemptRow, error) {
	rows, err := tx.Query(ctx, selectAttempt, jobID, number)
	if err != nil {
		return attemptRow{}, err
	}
	return oneAttempt(rows, jobID, number)
}

const selectAttempt = `SELECT ` + attemptColumns + ` FROM attempts WHERE job_id = $1 AND number = $2 FOR NO KEY UPDATE`

func oneAttempt(rows pgx.Rows, jobID string, number int) (attemptRow, error) {
	a, err := pgx.CollectExactlyOneRow(rows, scanAttempt)
	return a, orNotFound(err, "job %s has no attempt %d: see 'onejob attempt list %s'", jobID, number, jobID)
}

// lockAttempt locks and reads the job, then its attempt, in one round trip. It fails with
// [onejob.ErrNotFound].
func lockAttempt(ctx context.Context, tx pgx.Tx, jobID string, number int) (job lockedJob, a attemptRow, err error) {
	batch := &pgx.Batch{}
	batch.Queue(selectJobForUpdate, jobID).Query(func(rows pgx.Rows) (err error) {
		job, err = oneLockedJob(rows, jobID)
		return err
	})
	batch.Queue(selectAttempt, jobID, number).Query(func(rows pgx.Rows) (err error) {
		a, err = oneAttempt(rows, jobID, number)
		return err
	})
	return job, a, tx.SendBatch(ctx, batch).Close()
}

// querier is a transaction or the pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

const selectAttempts = `SELECT ` + attemptColumns + ` FROM attempts WHERE job_id = $1 ORDER BY number`

func readAttempts(ctx context.Context, q querier, jobID string) ([]attemptRow, error) {
	rows, err := q.Query(ctx, selectAttempts, jobID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanAttempt)
}

// Attempts returns the job's attempts by number.
func (s *Store) Attempts(ctx context.Context, jobID string) ([]onejob.Attempt, error) {
	rows, err := readAttempts(ctx, s.pool, jobID)
	if err != nil {
		return nil, translate("list attempts", err)
	}
	attempts := make([]onejob.Attempt, len(rows))
	for i, row := range rows {
		attempts[i] = row.Attempt
	}
	return attempts, nil
}
