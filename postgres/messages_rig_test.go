package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob/messages"
)

const testTopic = "thing.happened"

// newMessagesRig has a table to which a consumer adds a row for each message it applies.
func newMessagesRig(t testing.TB) rig {
	t.Helper()
	r := newRig(t)
	r.exec(t, `CREATE TABLE effects (message_key text NOT NULL)`)
	return r
}

func (r rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.hand.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// counting is a consumer that adds a row of effects for each message, and then does what
// else is given.
func counting(then ...func([]messages.Message) error) messages.Consumer {
	return messages.Consumer{
		Group: "counting-" + rand.Text(), Topics: []string{testTopic}, Backoff: func(int) time.Duration { return 0 },
		Apply: func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
			for _, m := range batch {
				if _, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, m.Key); err != nil {
					return err
				}
			}
			for _, do := range then {
				if err := do(batch); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// subscribed subscribes the consumer.
func (r rig) subscribed(t testing.TB, c messages.Consumer) messages.Consumer {
	t.Helper()
	if err := r.store.Subscribe(t.Context(), c.Group, c.Topics, c.From); err != nil {
		t.Fatal(err)
	}
	return c
}

// tell writes n messages of an owner of their own, and returns their keys in their order.
func (r rig) tell(t testing.TB, n int) (keys []string) {
	t.Helper()
	thing := testTopic + ":" + rand.Text()
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s-%04d", thing, i))
	}
	r.exec(t, tellMessages, keys, rand.Text(), testTopic)
	return keys
}

const tellMessages = `INSERT INTO outbox (message_key, owner_id, topic, payload) SELECT k, $2, $3, '{"n": 1}' FROM unnest($1::text[]) k`

// take takes a batch.
func (r rig) take(t testing.TB, c messages.Consumer) []messages.Message {
	t.Helper()
	taken, err := r.store.TakeBatch(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return taken.Batch
}

func (r rig) apply(t testing.TB, c messages.Consumer, batch []messages.Message) messages.Applied {
	t.Helper()
	applied, err := r.store.ApplyBatch(t.Context(), c, batch)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// applyAll takes and applies until nothing is due.
func (r rig) applyAll(t testing.TB, c messages.Consumer) (all messages.Applied) {
	t.Helper()
	for {
		taken, err := r.store.TakeBatch(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if len(taken.Batch)+len(taken.Dead) == 0 {
			return all
		}
		all.Dead += len(taken.Dead)
		if len(taken.Batch) > 0 {
			all.Add(r.apply(t, c, taken.Batch))
		}
	}
}

// leaseOver lets the leases of the claims that the group has taken end.
func (r rig) leaseOver(t testing.TB, group string) {
	t.Helper()
	r.exec(t, `UPDATE inbox SET next_try_at = clock_timestamp() WHERE consumer_group = $1 AND state = 'pending' AND tries > 0`, group)
}

// claims counts the group's claims in the state.
func (r rig) claims(t testing.TB, group, state string) int {
	t.Helper()
	return r.count(t, `SELECT count(*) FROM inbox WHERE consumer_group = $1 AND state = $2`, group, state)
}

// mustHaveEffects fails the test unless each message of those keys had its effect once, and
// nothing else had one.
func (r rig) mustHaveEffects(t testing.TB, keys ...string) {
	t.Helper()
	once := r.count(t, `SELECT count(*) FROM (SELECT message_key FROM effects WHERE message_key = ANY ($1) GROUP BY 1 HAVING count(*) = 1) x`, keys)
	if all := r.count(t, `SELECT count(*) FROM effects`); once != len(keys) || all != len(keys) {
		t.Errorf("%d of %d messages had their effect once; there are %d effects", once, len(keys), all)
	}
}

// poison makes batches with a message of those keys fail.
func poison(keys ...string) func([]messages.Message) error {
	return func(batch []messages.Message) error {
		for _, m := range batch {
			for _, key := range keys {
				if m.Key == key {
					return errors.New("cannot stomach " + strings.TrimPrefix(key, testTopic))
				}
			}
		}
		return nil
	}
}
