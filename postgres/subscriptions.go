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

// subscribeTx begins a transaction that waits for the writers of messages, who wait for it in
// turn, for a bounded time.
var subscribeTx = pgx.TxOptions{BeginQuery: "begin isolation level read committed; set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = '5s'"}

// Subscribe implements [messages.Store]. Topics that the group hears already are left alone;
// none is ever taken from it, for beside this program an older one may run. Messages older
// than the subscription get their claims before it returns, a batch at a time; who dies on
// the way is continued by the next that subscribes.
func (s *Store) Subscribe(ctx context.Context, group string, topics []string, from messages.From) error {
	var heard bool
	err := s.pool.QueryRow(ctx, `
		SELECT NOT EXISTS (SELECT unnest($2::text[]) EXCEPT SELECT topic FROM subscriptions WHERE consumer_group = $1)`, group, topics).Scan(&heard)
	if err == nil && !heard {
		err = pgx.BeginTxFunc(ctx, s.pool, subscribeTx, func(tx pgx.Tx) error { return subscribe(ctx, tx, group, topics, from) })
	}
	for more := true; more && err == nil; {
		more, err = s.claimBacklog(ctx, group)
	}
	return translate("subscribe group "+group, err)
}

// subscribe makes the group hear the topics. Each writer of messages has committed before, or
// writes after, and then with the group's claims.
func subscribe(ctx context.Context, tx pgx.Tx, group string, topics []string, from messages.From) error {
	if _, err := tx.Exec(ctx, `LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE`); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO subscriptions (consumer_group, topic, backlog)
		SELECT $1, topic, CASE WHEN $3 THEN '' END FROM unnest($2::text[]) topic
		ON CONFLICT (consumer_group, topic) DO NOTHING`, group, topics, from == messages.FromBeginning)
	return err
}

const backlogBatch = 5000

// claimBacklog writes claims for the next older messages that the group hears, and returns
// whether there may be more.
func (s *Store) claimBacklog(ctx context.Context, group string) (more bool, err error) {
	err = s.inTx(ctx, "claim older messages", func(tx pgx.Tx) error {
		var topic, after string
		err := tx.QueryRow(ctx, `
			SELECT topic, backlog FROM subscriptions WHERE consumer_group = $1 AND backlog IS NOT NULL
			ORDER BY topic LIMIT 1 FOR UPDATE`, group).Scan(&topic, &after)
		if more = err == nil; errors.Is(err, pgx.ErrNoRows) {
			return nil
		} else if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			WITH older AS MATERIALIZED (
				SELECT message_key, owner_id FROM outbox WHERE topic = $2 AND message_key > $3 ORDER BY message_key LIMIT $4
			), claimed AS (
				INSERT INTO inbox (consumer_group, message_key, owner_id) SELECT $1, message_key, owner_id FROM older
				ON CONFLICT (consumer_group, message_key) DO NOTHING
			)
			UPDATE subscriptions SET backlog = (SELECT max(message_key) FROM older)
			WHERE consumer_group = $1 AND topic = $2`, planned, group, topic, after, backlogBatch)
		return err
	})
	return more, err
}

// Unsubscribe ends what the group hears, and gives up what it has not done: its pending claims
// and its dead letters, of which it returns the number. Who said so and why is kept at each.
// A worker that still has the consumer subscribes it again when it starts. It fails with
// [onejob.ErrNotFound] if there is nothing of the group to end, with
// [onejob.ErrInvalidRequest] as [onejob.CheckSaid] does, and with [onejob.ErrServerUnreachable]
// if writers of messages, or the group's consumers, are not done in time.
func (s *Store) Unsubscribe(ctx context.Context, group, by, reason string) (given int, err error) {
	said, err := discarded(by, reason)
	if err != nil {
		return 0, err
	}
	err = pgx.BeginTxFunc(ctx, s.pool, subscribeTx, func(tx pgx.Tx) error {
		given, err = unsubscribe(ctx, tx, group, said)
		return err
	})
	return given, translate("end the subscription of group "+group, err)
}

// unsubscribe gives up what there is before it keeps writers away, and then the little that
// they wrote meanwhile: writers that are there before the lock have seen the subscriptions.
func unsubscribe(ctx context.Context, tx pgx.Tx, group, said string) (int, error) {
	before, err := discardOpen(ctx, tx, group, said)
	if err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `LOCK TABLE outbox IN SHARE ROW EXCLUSIVE MODE`); err != nil {
		return 0, err
	}
	ended, err := tx.Exec(ctx, `DELETE FROM subscriptions WHERE consumer_group = $1`, group)
	if err != nil {
		return 0, err
	}
	meanwhile, err := discardOpen(ctx, tx, group, said)
	if err == nil && ended.RowsAffected() == 0 && before+meanwhile == 0 {
		err = onejob.Errorf(onejob.CodeNotFound, "group %s hears nothing and has nothing to do: see 'onejob consumer list'", group)
	}
	return before + meanwhile, err
}

// discardOpen gives up the group's claims that are not done.
func discardOpen(ctx context.Context, tx pgx.Tx, group, said string) (int, error) {
	tag, err := tx.Exec(ctx, setDiscarded+` WHERE consumer_group = $1 AND state = ANY ($2)`, planned, group, []string{"pending", "dead"}, said)
	return int(tag.RowsAffected()), err
}

// Prune deletes messages that are older than that, done by every group that hears of them and
// told to every receiver, at most limit, and with them their claims and their deliveries. It
// returns how many it deleted.
func (s *Store) Prune(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	tag, err := s.pool.Exec(ctx, `
		DELETE FROM outbox WHERE message_key IN (
			SELECT m.message_key FROM outbox m
			WHERE m.created_at < now() - $1::bigint * interval '1 millisecond'
			  AND NOT EXISTS (SELECT FROM inbox i WHERE i.message_key = m.message_key AND i.state <> 'done')
			  AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.message_key = m.message_key AND d.state = 'pending')
			  AND NOT EXISTS (SELECT FROM subscriptions s WHERE s.topic = m.topic AND s.backlog IS NOT NULL)
			ORDER BY m.created_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, planned, milliseconds(olderThan), limit)
	return int(tag.RowsAffected()), translate("delete old messages", err)
}

// Listen implements [messages.Store]. It has a connection of its own beside the pool's.
func (s *Store) Listen(ctx context.Context, wake func(group string)) error {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return translate("connect to listen", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is lost with it
	if there, err := behindPooler(ctx, conn.PgConn()); err != nil {
		return translate("listen", err)
	} else if there {
		return fmt.Errorf("%w: a pooler stands before postgres", messages.ErrCannotListen)
	}
	if _, err := conn.Exec(ctx, `LISTEN onejob_messages`); err != nil {
		return translate("listen", err)
	}
	wake("")
	for {
		written, err := conn.WaitForNotification(ctx)
		if err != nil {
			return translate("listen", err)
		}
		wake(written.Payload)
	}
}
