package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Adoption is a workflow run's question how far its job is.
type Adoption struct {
	JobID      string
	WorkflowID string // the workflow that asks; it must be the job's
	Listening  []int  // numbers of the attempts that this run still listens to
	Fence      *Fence // an attempt of this run that ended without telling its outcome
}

// Fence is an attempt that was handed out and did not come back.
type Fence struct {
	Number   int    `json:"number"`
	Lane     int    `json:"lane"`
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"` // that the provider is asked for
}

// AdoptAttempts returns how far the job is, after two things: an attempt to fence that
// has no row gets one, as failed (never_started), so that a worker that wakes late
// finds its number taken; and a live attempt that nobody listens to becomes unknown
// (worker_lost). It calls nothing and decides nothing. It fails with
// [onejob.ErrNotFound] and [onejob.ErrIdentityMismatch].
func (s *Store) AdoptAttempts(ctx context.Context, q Adoption) (p onejob.Progress, err error) {
	err = s.inTx(ctx, "adopt the attempts", func(tx pgx.Tx) error {
		job, err := lockJob(ctx, tx, q.JobID)
		if err != nil {
			return err
		}
		if job.WorkflowID != q.WorkflowID {
			return onejob.Errorf(onejob.CodeIdentityMismatch, "workflow %s is not job %s's: it runs as %s", q.WorkflowID, q.JobID, job.WorkflowID)
		}
		if err := fence(ctx, tx, q, job); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE attempts SET state = 'unknown', reason = $3
			WHERE job_id = $1 AND state IN ('starting', 'running') AND NOT number = ANY ($2)`,
			q.JobID, append([]int{}, q.Listening...), onejob.ReasonWorkerLost); err != nil {
			return err
		}
		if err := followAttempts(ctx, tx, q.JobID); err != nil {
			return err
		}
		p, err = readProgress(ctx, tx, q.JobID)
		return err
	})
	return p, err
}

func fence(ctx context.Context, tx pgx.Tx, q Adoption, job lockedJob) error {
	if q.Fence == nil {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO attempts (job_id, number, lane, provider, model, job_version, state, reason, retryable, recorded_by, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, 'failed', $7, true, 'fence', clock_timestamp())
		ON CONFLICT (job_id, number) DO NOTHING`,
		q.JobID, q.Fence.Number, q.Fence.Lane, q.Fence.Provider, q.Fence.Model, job.Version, onejob.ReasonNeverStarted)
	return err
}

// readProgress reads how far the job is, in one round trip. Details stay behind: a
// workflow carries codes.
func readProgress(ctx context.Context, tx pgx.Tx, jobID string) (p onejob.Progress, err error) {
	var completedBy *int
	var requested *string
	batch := &pgx.Batch{}
	batch.Queue(`SELECT status, version, completed_by, requested_provider, error FROM jobs WHERE id = $1`, jobID).QueryRow(func(row pgx.Row) error {
		return row.Scan(&p.Status, &p.Version, &completedBy, &requested, &p.Error)
	})
	batch.Queue(selectAttempts, jobID).Query(func(rows pgx.Rows) error {
		attempts, err := pgx.CollectRows(rows, scanAttempt)
		for _, row := range attempts {
			row.Detail = ""
			p.Attempts = append(p.Attempts, row.Attempt)
		}
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return p, orNotFound(err, "job %s does not exist: check the id", jobID)
	}
	p.CompletedBy, p.Requested = orZero(completedBy), orZero(requested)
	return p, nil
}
