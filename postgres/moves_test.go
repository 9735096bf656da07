package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// in inserts a job that is in the status, and that nothing but its status keeps from
// becoming next.
func (r rig) in(t *testing.T, status, next onejob.Status) string {
	t.Helper()
	ended := r.failing
	if next == onejob.StatusSucceeded {
		ended = func(t testing.TB) attempt { return r.answered(t) }
	}
	switch status {
	case onejob.StatusAccepted:
		return r.accepted(t).ID
	case onejob.StatusRunning:
		return ended(t).job.ID
	case onejob.StatusUnknown:
		job := ended(t).job.ID
		if _, err := r.hand.Exec(t.Context(), `UPDATE jobs SET status = 'unknown' WHERE id = $1`, job); err != nil {
			t.Fatal(err)
		}
		return job
	case onejob.StatusSucceeded:
		return r.succeeded(t).job.ID
	case onejob.StatusFailed:
		return r.failed(t).job.ID
	}
	return r.cancelled(t).ID
}

// move is the hand that moves the job, with all that belongs to the move.
func (r rig) move(t *testing.T, job string, from, to onejob.Status) error {
	t.Helper()
	steps := 0
	if to == onejob.StatusSucceeded || to == onejob.StatusCancelled || from == onejob.StatusFailed {
		steps = 1
	}
	return pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
		if to == onejob.StatusSucceeded {
			if err := exec(t.Context(), tx, `UPDATE attempts SET decided_at = now(), result = NULL WHERE job_id = $1 AND state = 'succeeded' AND decided_at IS NULL`, job); err != nil {
				return err
			}
		}
		if err := exec(t.Context(), tx, `
			UPDATE jobs SET status = $2, version = version + $3,
				finished_at = CASE WHEN $4 THEN now() END,
				error = CASE WHEN $2 = 'failed' THEN '{}'::json END,
				completed_by = CASE WHEN $2 = 'succeeded' THEN 1 END,
				result = CASE WHEN $2 = 'succeeded' THEN '1'::json END
			WHERE id = $1`, job, string(to), steps, to.Closed()); err != nil {
			return err
		}
		for _, sql := range followUp(job, to) {
			if err := exec(t.Context(), tx, sql); err != nil {
				return err
			}
		}
		return nil
	})
}

// followUp is what a hand must write, too, that closes a job: its charge and its messages.
func followUp(job string, closed onejob.Status) (sql []string) {
	tell := func(topic, version string) {
		sql = append(sql, fmt.Sprintf(`INSERT INTO outbox (message_key, owner_id, topic, payload)
			SELECT '%[1]s:' || id %[2]s, owner_id, '%[1]s', '{}' FROM jobs WHERE id = '%[3]s'`, topic, version, job))
	}
	switch closed {
	case onejob.StatusSucceeded:
		tell("job.charge", "")
		sql = append(sql, fmt.Sprintf(`INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, unpriced, recorded_by)
			SELECT 'job.charge:' || j.id, j.owner_id, 'charge', 0, 'XXX', j.id, a.id, a.provider, '{}', true, 'hand'
			FROM jobs j JOIN attempts a ON a.job_id = j.id AND a.number = j.completed_by WHERE j.id = '%s'`, job))
		tell("job.succeeded", "")
	case onejob.StatusFailed:
		tell("job.failed", "|| ':' || version")
	case onejob.StatusCancelled:
		tell("job.cancelled", "")
	}
	return sql
}

func TestDatabaseAllowsExactlyTheMovesOfAJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, from := range onejob.Statuses() {
		for _, to := range onejob.Statuses() {
			if from == to {
				continue
			}
			err := r.move(t, r.in(t, from, to), from, to)
			words := fmt.Sprintf("%s cannot become %s", from, to)
			if allowed := err == nil; allowed != from.CanBecome(to) || !allowed && !strings.Contains(refusal(err), words) {
				t.Errorf("%s to %s: the domain says %v, the database %v", from, to, from.CanBecome(to), err)
			}
		}
	}
}

// attemptIn inserts a job with an attempt in the state.
func (r rig) attemptIn(t *testing.T, state onejob.AttemptState) attempt {
	t.Helper()
	switch state {
	case onejob.AttemptStarting:
		return r.started(t)
	case onejob.AttemptRunning:
		a := r.started(t)
		if _, err := r.store.MarkRunningIfStarting(t.Context(), a.job.ID, 1, "ref-1"); err != nil {
			t.Fatal(err)
		}
		return a
	case onejob.AttemptUnknown:
		return r.unknown(t)
	case onejob.AttemptSucceeded:
		return r.answered(t)
	case onejob.AttemptFailed:
		return r.failing(t)
	}
	a := r.started(t)
	if _, err := r.store.CancelAttemptIfLive(t.Context(), a.job.ID, 1, decision()); err != nil {
		t.Fatal(err)
	}
	return a
}

// moveAttempt is the hand that moves the job's attempt, with all that belongs to the move.
func (r rig) moveAttempt(t *testing.T, job string, to onejob.AttemptState) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
		if err := exec(t.Context(), tx, `
			UPDATE attempts SET state = $2, reason = coalesce(reason, 'x'), retryable = false,
				recorded_by = CASE WHEN $3 THEN 'hand' END, finished_at = CASE WHEN $3 THEN now() END,
				usage = CASE WHEN $2 = 'succeeded' THEN coalesce(usage, '{}') ELSE usage END,
				result = CASE WHEN $2 = 'succeeded' THEN '1'::json END
			WHERE job_id = $1`, job, string(to), to.Final()); err != nil || to != onejob.AttemptSucceeded {
			return err
		}
		if err := exec(t.Context(), tx, `INSERT INTO outbox (message_key, owner_id, topic, payload)
			SELECT 'attempt.cost:' || a.id, j.owner_id, 'attempt.cost', '{}' FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE j.id = $1`, job); err != nil {
			return err
		}
		return exec(t.Context(), tx, `INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, unpriced, recorded_by)
			SELECT 'attempt.cost:' || a.id, j.owner_id, 'cost', 0, 'XXX', j.id, a.id, a.provider, '{}', true, 'hand'
			FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE j.id = $1`, job)
	})
}

func TestDatabaseAllowsExactlyTheMovesOfAnAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, from := range onejob.AttemptStates() {
		for _, to := range onejob.AttemptStates() {
			if from == to {
				continue
			}
			err := r.moveAttempt(t, r.attemptIn(t, from).job.ID, to)
			words := fmt.Sprintf("%s cannot become %s", from, to)
			if allowed := err == nil; allowed != from.CanBecome(to) || !allowed && !strings.Contains(refusal(err), words) {
				t.Errorf("%s to %s: the domain says %v, the database %v", from, to, from.CanBecome(to), err)
			}
		}
	}
}

func TestIllegalMoveHasASQLStateOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.hand.Exec(t.Context(), `UPDATE jobs SET status = 'failed' WHERE id = $1`, r.cancelled(t).ID)
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != illegal {
		t.Fatalf("got %v", err)
	}
}
