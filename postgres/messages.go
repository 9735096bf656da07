package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
)

// byClaim finds claims of the group $1 by the keys $2, at every place that looks for one. Its
// columns are those of the inbox's primary key, all of them and no others: a claim that is
// looked up otherwise than it is kept is never found, and its message applied for ever.
const byClaim = `consumer_group = $1 AND message_key = ANY ($2)`

// planned has the statements about messages planned anew each time: their tables grow from
// nothing to millions of rows under a running worker.
const planned = pgx.QueryExecModeCacheDescribe

// takeBatch counts a try of the claims that it returns. The one that is due first decides:
// it is taken alone if it was tried before, for that try may have killed its process; else
// with others that were never tried. One whose tries are used up becomes dead.
const takeBatch = `
	WITH first AS MATERIALIZED (
		SELECT message_key, tries FROM inbox
		WHERE consumer_group = $1 AND state = 'pending' AND next_try_at <= now()
		ORDER BY next_try_at LIMIT 1 FOR UPDATE SKIP LOCKED
	), others AS MATERIALIZED (
		SELECT message_key, tries FROM inbox
		WHERE consumer_group = $1 AND state = 'pending' AND next_try_at <= now() AND (SELECT tries = 0 FROM first)
		ORDER BY next_try_at LIMIT $2 FOR UPDATE SKIP LOCKED
	), chosen AS (
		SELECT message_key FROM first UNION SELECT message_key FROM others WHERE tries = 0 LIMIT $2
	), taken AS (
		UPDATE inbox i SET
			state = CASE WHEN tries < $3 THEN 'pending' ELSE 'dead' END,
			tries = CASE WHEN tries < $3 THEN tries + 1 ELSE tries END,
			last_error = CASE WHEN tries < $3 THEN last_error ELSE coalesce(last_error, 'its last try never ended: the process died, or its lease ran out') END,
			next_try_at = clock_timestamp() + ($4::bigint[])[least(tries + 1, $3)] * interval '1 millisecond'
		FROM chosen c WHERE i.consumer_group = $1 AND i.message_key = c.message_key
		RETURNING i.message_key, i.tries, i.state
	)
	SELECT m.message_key, m.owner_id, m.topic, m.payload, m.created_at, t.tries, t.state = 'dead'
	FROM taken t JOIN outbox m ON m.message_key = t.message_key ORDER BY m.message_key`

// TakeBatch implements [messages.Store].
func (s *Store) TakeBatch(ctx context.Context, c messages.Consumer) (taken messages.Taken, err error) {
	c = c.OrDefault()
	rows, err := s.pool.Query(ctx, takeBatch, planned, c.Group, c.Batch, c.MaxTries, leases(c))
	if err != nil {
		return messages.Taken{}, translate("take messages", err)
	}
	all, err := pgx.CollectRows(rows, scanMessage)
	for _, m := range all {
		if m.dead {
			taken.Dead = append(taken.Dead, m.Key)
		} else {
			taken.Batch = append(taken.Batch, m.Message)
		}
	}
	return taken, translate("take messages", err)
}

type messageRow struct {
	messages.Message
	dead bool
}

func scanMessage(row pgx.CollectableRow) (m messageRow, err error) {
	err = row.Scan(&m.Key, &m.Owner, &m.Topic, &m.Payload, &m.CreatedAt, &m.Tries, &m.dead)
	m.CreatedAt = m.CreatedAt.UTC()
	return m, err
}

// leases returns for how long a claim is left alone after each of its tries began, in
// milliseconds.
func leases(c messages.Consumer) []int64 {
	all := make([]int64, c.MaxTries)
	for i := range all {
		all[i] = milliseconds(max(c.Lease, c.Backoff(i+1)))
	}
	return all
}

// Deliver applies the group's messages of those keys, whether they are due or not. A
// duplicate changes nothing and is counted; a dead message waits for its redrive.
func (s *Store) Deliver(ctx context.Context, c messages.Consumer, keys ...string) (messages.Applied, error) {
	c = c.OrDefault()
	rows, err := s.pool.Query(ctx, `
		WITH counted AS (
			UPDATE inbox SET tries = tries + 1, next_try_at = clock_timestamp() + $3::bigint * interval '1 millisecond'
			WHERE `+byClaim+` AND state = 'pending' RETURNING message_key, tries
		), claims AS (SELECT message_key, tries FROM inbox WHERE `+byClaim+`)
		SELECT m.message_key, m.owner_id, m.topic, m.payload, m.created_at, coalesce(counted.tries, i.tries), false
		FROM claims i JOIN outbox m ON m.message_key = i.message_key LEFT JOIN counted ON counted.message_key = i.message_key
		ORDER BY m.message_key`, planned, c.Group, keys, milliseconds(c.Lease))
	if err != nil {
		return messages.Applied{}, translate("deliver messages", err)
	}
	all, err := pgx.CollectRows(rows, scanMessage)
	if err != nil || len(all) == 0 {
		return messages.Applied{}, translate("deliver messages", err)
	}
	batch := make([]messages.Message, len(all))
	for i, m := range all {
		batch[i] = m.Message
	}
	return s.ApplyBatch(ctx, c, batch)
}

// deliveriesAtOnce bounds how often a batch is overtaken before its caller is to try again:
// somebody else committed each time.
const deliveriesAtOnce = 5

// errOvertaken says that another delivery, a rebuild or an operator was faster.
var errOvertaken = errors.New("some of the messages were done meanwhile")

// ApplyBatch implements [messages.Store].
func (s *Store) ApplyBatch(ctx context.Context, c messages.Consumer, batch []messages.Message) (applied messages.Applied, err error) {
	c = c.OrDefault()
	leased, cancel := context.WithTimeout(ctx, c.Lease)
	defer cancel()
	for range deliveriesAtOnce {
		if applied, err = s.applyTogether(ctx, c, batch); !errors.Is(err, errOvertaken) {
			break
		}
	}
	failure, failed := errors.AsType[*effectError](err)
	switch {
	case !failed:
		return applied, translate("apply messages", err)
	case len(batch) == 1:
		return s.recordFailure(ctx, c, batch[0], failure)
	}
	return s.applyEach(ctx, leased, c, batch)
}

// applyEach applies the messages one by one until the batch's lease ends: then others may have
// been handed them. What is left comes due by itself, and is not to blame for what took so long.
func (s *Store) applyEach(ctx, leased context.Context, c messages.Consumer, batch []messages.Message) (applied messages.Applied, err error) {
	for i := range batch {
		one, err := s.applyTogether(leased, c, batch[i:i+1])
		if err != nil && leased.Err() != nil && ctx.Err() == nil {
			return applied, nil
		}
		if failure, failed := errors.AsType[*effectError](err); failed {
			one, err = s.recordFailure(ctx, c, batch[i], failure)
		}
		applied.Add(one)
		if err != nil {
			return applied, translate("apply messages", err)
		}
	}
	return applied, nil
}

// applyTogether applies the messages and marks their claims in one transaction. It fails with
// an [effectError] where the messages are to blame.
func (s *Store) applyTogether(parent context.Context, c messages.Consumer, batch []messages.Message) (applied messages.Applied, err error) {
	tx, err := s.pool.BeginTx(parent, leasedTx(c.Lease))
	if err != nil {
		return applied, err
	}
	defer func() { _ = tx.Rollback(parent) }() // of what was committed it does nothing
	ctx, cancel := context.WithTimeout(parent, c.Lease)
	defer cancel()
	if applied, err = applyIn(ctx, tx, c, batch); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it was stopped at the end of its lease of %s: %w", c.Lease, err)
		}
		return messages.Applied{}, blame(err, parent.Err() == nil && (ctx.Err() != nil || !tx.Conn().IsClosed()))
	}
	if err = tx.Commit(parent); err != nil {
		return messages.Applied{}, blame(err, refused(err))
	}
	return applied, nil
}

// blame makes err one that the messages are to blame for, if the server was there and did
// not give the transaction up for the sake of others.
func blame(err error, served bool) error {
	if served && !rolledBack(err) && !errors.Is(err, errOvertaken) {
		return &effectError{err}
	}
	return err
}

// leasedTx begins a transaction that the server ends when its client falls silent for
// longer than the lease.
func leasedTx(lease time.Duration) pgx.TxOptions {
	return pgx.TxOptions{BeginQuery: fmt.Sprintf("begin isolation level read committed; set local idle_in_transaction_session_timeout = %d", milliseconds(lease))}
}

// applyIn applies those of the batch whose claims are pending, and marks these as done. Claims
// are not locked while the effect is made, for nearly always nobody else wants them: whoever
// finds one done when it is to be marked gives its effect up.
func applyIn(ctx context.Context, tx pgx.Tx, c messages.Consumer, batch []messages.Message) (applied messages.Applied, err error) {
	if c.Lock != nil {
		if err := c.Lock(ctx, heldTx{tx}, batch); err != nil {
			return applied, err
		}
	}
	open, transaction, err := openClaims(ctx, tx, c.Group, batch)
	if err != nil {
		return applied, err
	}
	if len(open) < len(batch) {
		if applied.Duplicates, err = countDuplicates(ctx, tx, c.Group, batch, open); err != nil || len(open) == 0 {
			return applied, err
		}
	}
	if err := apply(ctx, tx, c, open); err != nil {
		return applied, err
	}
	if err := checkStillIn(ctx, tx, transaction); err != nil {
		return applied, err
	}
	applied.Done = len(open)
	return applied, markDone(ctx, tx, c.Group, open)
}

// apply makes a panic of the consumer an error.
func apply(ctx context.Context, tx pgx.Tx, c messages.Consumer, open []messages.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the consumer panicked: %v", p)
		}
	}()
	return c.Apply(ctx, heldTx{tx}, open)
}

// heldTx is the transaction as consumers get it, and nothing more.
type heldTx struct{ messages.Tx }

// checkStillIn fails if the transaction is not the one that read the claims: a consumer
// ended it by a statement, and what is marked now would not commit with the effect.
func checkStillIn(ctx context.Context, tx pgx.Tx, transaction string) error {
	var still bool
	err := tx.QueryRow(ctx, `SELECT pg_current_xact_id()::text = $1`, transaction).Scan(&still)
	if err == nil && !still {
		err = onejob.Errorf(onejob.CodeInternal, "the consumer ended its transaction: leave that out, its claims commit with it")
	}
	return err
}

// openClaims returns those of the messages whose claims are pending, and which transaction it
// is that read them.
func openClaims(ctx context.Context, tx pgx.Tx, group string, batch []messages.Message) (open []messages.Message, transaction string, err error) {
	rows, err := tx.Query(ctx, `
		SELECT message_key, pg_current_xact_id()::text FROM inbox WHERE `+byClaim+` AND state = 'pending'`,
		planned, group, keysOf(batch))
	if err != nil {
		return nil, "", err
	}
	pending := map[string]bool{}
	var key string
	if _, err := pgx.ForEachRow(rows, []any{&key, &transaction}, func() error { pending[key] = true; return nil }); err != nil {
		return nil, "", err
	}
	for _, m := range batch {
		if pending[m.Key] {
			open = append(open, m)
		}
	}
	return open, transaction, nil
}

// countDuplicates counts the delivery at those of the batch that are not open because they
// were done before, locked in the order of their keys as all claims are.
func countDuplicates(ctx context.Context, tx pgx.Tx, group string, batch, open []messages.Message) (int, error) {
	tag, err := tx.Exec(ctx, `
		WITH before AS MATERIALIZED (
			SELECT message_key FROM inbox
			WHERE `+byClaim+` AND message_key <> ALL ($3) AND state = 'done' ORDER BY message_key FOR NO KEY UPDATE
		)
		UPDATE inbox i SET duplicates = duplicates + 1
		FROM before b WHERE i.consumer_group = $1 AND i.message_key = b.message_key`, planned, group, keysOf(batch), keysOf(open))
	return int(tag.RowsAffected()), err
}

func markDone(ctx context.Context, tx pgx.Tx, group string, open []messages.Message) error {
	tag, err := tx.Exec(ctx, `
		UPDATE inbox SET state = 'done', done_at = clock_timestamp(), done_by = 'consumer'
		WHERE `+byClaim+` AND state = 'pending'`, planned, group, keysOf(open))
	if err == nil && int(tag.RowsAffected()) != len(open) {
		err = errOvertaken
	}
	return err
}

// recordFailure keeps why the message's try failed. A claim that others have taken since is
// theirs.
func (s *Store) recordFailure(ctx context.Context, c messages.Consumer, m messages.Message, failure *effectError) (messages.Applied, error) {
	applied := messages.Applied{Failed: 1, Reason: storable(failure.Error())}
	err := s.pool.QueryRow(ctx, `
		UPDATE inbox SET last_error = $3, state = CASE WHEN tries < $4 THEN 'pending' ELSE 'dead' END,
			next_try_at = clock_timestamp() + $5::bigint * interval '1 millisecond'
		WHERE `+byClaim+` AND state = 'pending' AND tries = $6 RETURNING (state = 'dead')::integer`,
		planned, c.Group, []string{m.Key}, applied.Reason, c.MaxTries, milliseconds(c.Backoff(m.Tries)), m.Tries).Scan(&applied.Dead)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return applied, translate("record a message's failure", err)
}

// effectError is a failure that the messages of a batch are to blame for.
type effectError struct{ error }

func (e *effectError) Unwrap() error { return e.error }

func keysOf(batch []messages.Message) []string {
	keys := make([]string, len(batch))
	for i, m := range batch {
		keys[i] = m.Key
	}
	return keys
}

var _ messages.Store = (*Store)(nil)
