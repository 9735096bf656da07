package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// The rules keep an attempt of an older version from having a result that nobody decided on.
// The swap does not rely on them: here a hand has switched them off.
func TestAttemptOfAnOlderVersionNeverWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.answered(t)
	r.withoutRules(t, `UPDATE jobs SET version = version + 1 WHERE id = $1`, a.job.ID)
	c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, a.number)
	if err != nil || c.Won || c.Progress.Status != onejob.StatusRunning || c.Progress.CompletedBy != 0 || !c.Progress.Attempts[0].Discarded {
		t.Errorf("%+v, %v", c, err)
	}
}

// withoutRules runs the statement with triggers and foreign keys switched off.
func (r rig) withoutRules(t *testing.T, statement string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), statement, args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The row of an attempt is the permission of one execution to call. Another one that is told
// to execute the same attempt, while the first is at it, has none.
func TestAnotherExecutionOfAStartedAttemptMayNotCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t)
	r.mustNotStart(t, "another execution started it", startOf(a.job, a.number, 0))
}
