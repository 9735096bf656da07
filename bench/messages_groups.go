package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// roundMessages is what each side of a comparison applies in a round.
const roundMessages = 20_000

// compareGroups runs each summary's consumer and its statements bare in turn.
func (m *messageBench) compareGroups(ctx context.Context, rounds int) (all []GroupReport, err error) {
	for _, c := range summaryConsumers() {
		c = c.OrDefault()
		if err := m.store.Subscribe(ctx, c.Group, c.Topics, messages.FromNow); err != nil {
			return nil, err
		}
		var ours, bare, ratios []float64
		for range rounds {
			b, err := m.timeBare(ctx, c)
			if err != nil {
				return nil, err
			}
			o, err := m.timeConsumer(ctx, c)
			if err != nil {
				return nil, err
			}
			bare, ours, ratios = append(bare, b), append(ours, o), append(ratios, o/b)
			progress("%s: %.0f messages/s, bare %.0f", c.Group, o, b)
		}
		all = append(all, GroupReport{c.Group, c.Batch, spreadOf(ours), spreadOf(bare), spreadOf(ratios), targetMessages})
		if _, err := m.conn.Exec(ctx, `DELETE FROM subscriptions WHERE consumer_group = $1`, c.Group); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func summaryConsumers() (all []messages.Consumer) {
	for _, c := range postgres.Consumers() {
		if strings.HasPrefix(c.Group, "usage_") {
			all = append(all, c)
		}
	}
	return all
}

// timeConsumer returns the messages/s of a runner that is awake, from when they are written.
func (m *messageBench) timeConsumer(ctx context.Context, c messages.Consumer) (float64, error) {
	seen := newAwaited()
	stop := m.startRunners(ctx, seen, []messages.Consumer{c}, m.store)
	defer stop()
	if _, err := seen.time(ctx, 1, func() error { return m.bookAndTell(ctx, 1) }); err != nil {
		return 0, err
	}
	return m.timeRound(ctx, func(tell func() error) (time.Duration, error) { return seen.time(ctx, roundMessages, tell) })
}

// timeBare returns the messages/s of the consumer's statements alone, written just before.
func (m *messageBench) timeBare(ctx context.Context, c messages.Consumer) (float64, error) {
	return m.timeRound(ctx, func(tell func() error) (time.Duration, error) {
		began := time.Now()
		if err := tell(); err != nil {
			return 0, err
		}
		err := m.runBare(ctx, c)
		return time.Since(began), err
	})
}

// timeRound books a round's entries and has apply tell of them and time it.
func (m *messageBench) timeRound(ctx context.Context, apply func(tell func() error) (time.Duration, error)) (float64, error) {
	first, err := m.book(ctx, roundMessages)
	if err != nil {
		return 0, err
	}
	if _, err := m.conn.Exec(ctx, `VACUUM ANALYZE ledger, outbox, inbox`); err != nil {
		return 0, err
	}
	var telling time.Duration
	took, err := apply(func() error {
		began := time.Now()
		defer func() { telling = time.Since(began) }()
		return m.tell(ctx, first, m.last)
	})
	return roundMessages / (took - telling).Seconds(), err
}

// runBare does to the last messages what the consumer's statements do, knowing which they
// are: it counts a try, adds to the summary and marks the claims, in batches of the same
// size and in as many transactions.
func (m *messageBench) runBare(ctx context.Context, c messages.Consumer) error {
	for first := m.last - roundMessages + 1; first <= m.last; first += c.Batch {
		var batch []messages.Message
		var keys []string
		for e := first; e < first+c.Batch; e++ {
			keys = append(keys, fmt.Sprintf("attempt.cost:%d", e))
			batch = append(batch, messages.Message{Key: keys[len(keys)-1]})
		}
		if _, err := m.conn.Exec(ctx, `UPDATE inbox SET tries = tries + 1, next_try_at = clock_timestamp() + interval '1 minute'
			WHERE consumer_group = $1 AND message_key = ANY ($2)`, c.Group, keys); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
			if err := c.Apply(ctx, tx, batch); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE inbox SET state = 'done', done_at = clock_timestamp(), done_by = 'consumer'
				WHERE consumer_group = $1 AND message_key = ANY ($2)`, c.Group, keys)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
