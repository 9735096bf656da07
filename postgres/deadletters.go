package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
)

const selectDeadLetters = `
	SELECT consumer_group, message_key, m.owner_id, m.topic, tries, coalesce(last_error, ''), m.created_at, m.payload
	FROM inbox i JOIN outbox m USING (message_key) WHERE state = 'dead'`

func scanDeadLetter(row pgx.CollectableRow) (d messages.DeadLetter, err error) {
	err = row.Scan(&d.Group, &d.Key, &d.Owner, &d.Topic, &d.Tries, &d.LastError, &d.CreatedAt, &d.Payload)
	d.CreatedAt = d.CreatedAt.UTC()
	return d, err
}

// DeadLetters returns the dead letters of the group, of all groups if it is empty, in the
// order of groups and keys, at most limit of them.
func (s *Store) DeadLetters(ctx context.Context, group string, limit int) ([]messages.DeadLetter, error) {
	rows, err := s.pool.Query(ctx, selectDeadLetters+`
		AND ($1 = '' OR consumer_group = $1) ORDER BY consumer_group, message_key LIMIT $2`, planned, group, limit)
	if err != nil {
		return nil, translate("list the dead letters", err)
	}
	letters, err := pgx.CollectRows(rows, scanDeadLetter)
	return letters, translate("list the dead letters", err)
}

// DeadLetter returns a dead letter. It fails with [onejob.ErrNotFound].
func (s *Store) DeadLetter(ctx context.Context, group, key string) (messages.DeadLetter, error) {
	rows, err := s.pool.Query(ctx, selectDeadLetters+` AND `+byClaim, planned, group, []string{key})
	if err != nil {
		return messages.DeadLetter{}, translate("read the dead letter", err)
	}
	letter, err := pgx.CollectExactlyOneRow(rows, scanDeadLetter)
	return letter, translate("read the dead letter", orNotFound(err, noDeadLetter, group, key))
}

const noDeadLetter = "group %s has no dead letter %s: see 'onejob deadletter list'"

// RedriveIfDead makes the message new to the group. It fails with [onejob.ErrNotFound] if it
// is no dead letter.
func (s *Store) RedriveIfDead(ctx context.Context, group, key string) error {
	n, err := s.redrive(ctx, byClaim, group, []string{key})
	if err == nil && n == 0 {
		return onejob.Errorf(onejob.CodeNotFound, noDeadLetter, group, key)
	}
	return err
}

// RedriveAll makes all dead letters of the group new to it, and returns how many.
func (s *Store) RedriveAll(ctx context.Context, group string) (int, error) {
	return s.redrive(ctx, `consumer_group = $1`, group)
}

// redrive resets state, tries and what failed together, and wakes who sleeps.
func (s *Store) redrive(ctx context.Context, which string, args ...any) (n int, err error) {
	err = s.inTx(ctx, "redrive", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE inbox SET state = 'pending', tries = 0, next_try_at = clock_timestamp(), last_error = NULL
			WHERE `+which+` AND state = 'dead'`, append([]any{planned}, args...)...)
		if n = int(tag.RowsAffected()); err != nil || n == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_notify('onejob_messages', '')`)
		return err
	})
	return n, err
}

// setDiscarded gives claims up; $3 says by whom and why.
const setDiscarded = `
	UPDATE inbox SET state = 'done', done_at = clock_timestamp(), done_by = 'discarded',
		last_error = $3 || coalesce('; it had failed with: ' || left(last_error, 400), '')`

// discarded returns who gave a claim up and why, as it is kept.
func discarded(by, reason string) (string, error) {
	return "discarded by " + by + ": " + reason, onejob.CheckSaid(by, reason)
}

// DiscardIfDead gives the group's dead letter up: it is never applied. Who said so and why is
// kept before what failed. It fails with [onejob.ErrNotFound] if it is no dead letter, and
// with [onejob.ErrInvalidRequest] as [onejob.CheckSaid] does.
func (s *Store) DiscardIfDead(ctx context.Context, group, key, by, reason string) error {
	said, err := discarded(by, reason)
	if err != nil {
		return err
	}
	tag, err := s.pool.Exec(ctx, setDiscarded+` WHERE `+byClaim+` AND state = 'dead'`, planned, group, []string{key}, said)
	if err == nil && tag.RowsAffected() == 0 {
		return onejob.Errorf(onejob.CodeNotFound, noDeadLetter, group, key)
	}
	return translate("discard the dead letter", err)
}
