package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Completion says how the decision on an attempt's result went.
type Completion struct {
	Won      bool
	Raced    bool // this call discarded the result: another had won, or the job was closed
	Progress onejob.Progress
}

// CompleteJobIfOpen lets the attempt's result win if the slot is free and no decision
// was made since the attempt started: the compare-and-swap. Otherwise it discards the
// result, unless the winner is this very attempt: then the acknowledgement of an
// earlier try was lost, and it has won.
func (s *Store) CompleteJobIfOpen(ctx context.Context, jobID string, number int) (c Completion, err error) {
	err = s.inTx(ctx, "complete the job", func(tx pgx.Tx) error {
		if c.Won, err = swap(ctx, tx, jobID, number); err == nil && !c.Won {
			err = discardUnlessWinner(ctx, tx, jobID, number, &c)
		}
		if err != nil {
			return err
		}
		c.Progress, err = readProgress(ctx, tx, jobID)
		return err
	})
	return c, err
}

// swap is the compare-and-swap. It returns whether the attempt's result took the slot: then
// the owner is charged, the reservation settled, and both told of, by the same statement.
func swap(ctx context.Context, tx pgx.Tx, jobID string, number int) (bool, error) {
	var hedged bool
	err := tx.QueryRow(ctx, `
		WITH closed AS (
			UPDATE jobs SET status = 'succeeded', completed_by = a.number, result = a.result, version = version + 1,
			requested_provider = NULL, finished_at = clock_timestamp()
			FROM attempts a
			WHERE jobs.id = $1 AND a.job_id = $1 AND a.number = $2 AND a.state = 'succeeded' AND a.decided_at IS NULL
			  AND jobs.version = a.job_version AND jobs.completed_by IS NULL AND jobs.status IN ('running', 'unknown')
			RETURNING `+closedJob+`, jobs.hedge_after_ms IS NOT NULL AS hedged,
				a.id AS attempt_id, a.provider AS attempt_provider, a.model, a.usage, a.started_at, a.recorded_by
		), decided AS (
			UPDATE attempts SET decided_at = clock_timestamp(), result = NULL FROM closed WHERE attempts.id = closed.attempt_id
		), `+bookCharge+`, `+settleReservation+`, `+tellClosed+`
		SELECT hedged FROM closed`,
		jobID, number).Scan(&hedged)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil && hedged {
		err = giveUpOthers(ctx, tx, jobID, number)
	}
	return err == nil, err
}

// giveUpOthers gives up the attempt that runs beside the winner. One that has its answer is
// discarded when that is decided on.
func giveUpOthers(ctx context.Context, tx pgx.Tx, jobID string, winner int) error {
	job, err := lockJob(ctx, tx, jobID)
	if err != nil {
		return err
	}
	attempts, err := readAttempts(ctx, tx, jobID)
	if err != nil {
		return err
	}
	lost := Outcome{State: onejob.AttemptCancelled, Reason: onejob.ReasonSlotTaken, RecordedBy: fmt.Sprintf("winner/%d", winner)}
	for _, a := range attempts {
		if a.State.Final() {
			continue
		}
		if _, err := writeOutcome(ctx, tx, a, job, lost); err != nil {
			return err
		}
	}
	return nil
}

// discardUnlessWinner runs where the swap took no row. The swap may have looked before
// somebody who held the job's lock recorded the result, so it is tried again under that
// lock: what it refuses then can never win.
func discardUnlessWinner(ctx context.Context, tx pgx.Tx, jobID string, number int, c *Completion) error {
	job, a, err := lockAttempt(ctx, tx, jobID, number)
	if err != nil {
		return err
	}
	if c.Won = orZero(job.CompletedBy) == number; c.Won || a.State != onejob.AttemptSucceeded || a.Decided {
		return nil
	}
	if c.Won, err = swap(ctx, tx, jobID, number); err != nil || c.Won {
		return err
	}
	c.Raced = true
	return discardUndecided(ctx, tx, a, job)
}

// discardUndecided discards the result of a success that cannot win any more.
func discardUndecided(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob) error {
	var result string
	if err := tx.QueryRow(ctx, `SELECT result::text FROM attempts WHERE id = $1`, a.id).Scan(&result); err != nil {
		return err
	}
	if err := logDiscarded(ctx, tx, a, job, onejob.ReasonJobClosed, result); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE attempts SET decided_at = clock_timestamp(), discarded_at = clock_timestamp(), result = NULL WHERE id = $1`, a.id)
	return err
}

// logDiscarded keeps what is kept of a discarded result: why says so unless another
// attempt's result holds the slot. A second one of the same attempt is the same answer
// told twice.
func logDiscarded(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, why onejob.Reason, result string) error {
	var winner *int
	if job.CompletedBy != nil && *job.CompletedBy != a.Number {
		winner, why = job.CompletedBy, onejob.ReasonSlotTaken
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO discarded_results (attempt_id, job_id, reason, winner_attempt_id, sha256, bytes)
		SELECT $1, $2, $3, (SELECT id FROM attempts WHERE job_id = $2 AND number = $4),
		       sha256(convert_to($5, 'UTF8')), octet_length($5)
		ON CONFLICT (attempt_id) DO NOTHING`,
		a.id, a.jobID, why, winner, result)
	return err
}

// FailJobIfNothingLives closes the job as failed, with the reason of its last attempt,
// if it is running at that version and nobody asked for another attempt meanwhile. What
// was reserved for it is free again.
// Either way it returns how far the job is.
func (s *Store) FailJobIfNothingLives(ctx context.Context, jobID string, version int) (p onejob.Progress, err error) {
	err = s.inTx(ctx, "fail the job", func(tx pgx.Tx) error {
		if _, err := lockJob(ctx, tx, jobID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			WITH closed AS (
			UPDATE jobs SET status = 'failed', finished_at = clock_timestamp(), error = (
				SELECT json_build_object('code', a.reason, 'message',
					format('attempt %s on %s %s: %s', a.number, a.provider, a.state, coalesce(left(a.detail, 1000), a.reason)))
				FROM attempts a WHERE a.job_id = jobs.id ORDER BY a.number DESC LIMIT 1)
			WHERE id = $1 AND version = $2 AND status = 'running' AND requested_provider IS NULL
			  AND NOT EXISTS (SELECT FROM attempts a WHERE a.job_id = jobs.id
			                  AND (a.state IN ('starting', 'running', 'unknown') OR (a.state = 'succeeded' AND a.decided_at IS NULL)))
			RETURNING `+closedJob+`
			), `+releaseReservation+`, `+tellClosed+`
			SELECT FROM closed`,
			jobID, version); err != nil {
			return err
		}
		p, err = readProgress(ctx, tx, jobID)
		return err
	})
	return p, err
}
