package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

func TestClaimIsLookedUpByItsPrimaryKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rows, err := r.hand.Query(t.Context(), `
		SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE i.indrelid = 'inbox'::regclass AND i.indisprimary`)
	if err != nil {
		t.Fatal(err)
	}
	unique, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	var lookedUp []string
	for _, found := range regexp.MustCompile(`(\w+) =`).FindAllStringSubmatch(postgres.ByClaim, -1) {
		lookedUp = append(lookedUp, found[1])
	}
	slices.Sort(unique)
	slices.Sort(lookedUp)
	if !slices.Equal(unique, lookedUp) {
		t.Errorf("claims are unique by %v and looked up by %v", unique, lookedUp)
	}
}

func TestClaimHasTheOwnerOfItsMessage(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	key := r.tell(t, 1)[0]
	if r.count(t, `SELECT count(*) FROM inbox JOIN outbox USING (message_key, owner_id) WHERE message_key = $1`, key) != 1 {
		t.Error("the claim's owner is not the message's")
	}
	for owner, constraint := range map[string]string{"": "onejob_name_not_blank", " \t": "onejob_name_not_blank", "somebody else": "inbox_message"} {
		_, err := r.hand.Exec(t.Context(), `INSERT INTO inbox (consumer_group, message_key, owner_id) VALUES ('another', $1, $2)`, key, owner)
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.ConstraintName != constraint {
			t.Errorf("a claim of owner %q: %v, not refused by %s", owner, err, constraint)
		}
	}
	if r.applyAll(t, c); r.claims(t, c.Group, "done") != 1 {
		t.Error("the claim was not found again")
	}
}

func TestTryIsCountedBeforeTheConsumerRuns(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	r.tell(t, 3)
	batch := r.take(t, c)
	if len(batch) != 3 || batch[0].Tries != 1 || string(batch[0].Payload) != `{"n": 1}` || batch[0].CreatedAt.IsZero() {
		t.Fatalf("%+v", batch)
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE consumer_group = $1 AND tries = 1 AND next_try_at > now() + interval '50 seconds'`, c.Group); n != 3 {
		t.Errorf("%d tries are counted and leased", n)
	}
	if again := r.take(t, c); len(again) > 0 {
		t.Errorf("handed out twice at once: %+v", again)
	}
}

func TestMessageThatWasTriedIsHandedOutAlone(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	keys := r.tell(t, 3)
	r.take(t, c)
	keys = append(keys, r.tell(t, 2)...)
	r.leaseOver(t, c.Group)
	keys = append(keys, r.tell(t, 2)...)
	var sizes []int
	for batch := r.take(t, c); len(batch) > 0; batch = r.take(t, c) {
		sizes = append(sizes, len(batch))
		r.apply(t, c, batch)
	}
	if slices.Sort(sizes); !slices.Equal(sizes, []int{1, 1, 1, 4}) {
		t.Errorf("batches of %v", sizes)
	}
	r.mustHaveEffects(t, keys...)
}

func TestTryThatNeverEndsIsCountedAndTheLastIsDeath(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := counting()
	c.MaxTries = 3
	r.subscribed(t, c)
	key := r.tell(t, 1)[0]
	for try := range c.MaxTries {
		if batch := r.take(t, c); len(batch) != 1 || batch[0].Tries != try+1 {
			t.Fatalf("try %d: %+v", try+1, batch)
		}
		r.leaseOver(t, c.Group)
	}
	taken, err := r.store.TakeBatch(t.Context(), c)
	if err != nil || len(taken.Batch) > 0 || !slices.Equal(taken.Dead, []string{key}) {
		t.Fatalf("%+v, %v", taken, err)
	}
	letter, err := r.store.DeadLetter(t.Context(), c.Group, key)
	if err != nil || letter.Tries != 3 || !strings.Contains(letter.LastError, "never ended") {
		t.Errorf("%+v, %v", letter, err)
	}
}

func TestDuplicateDeliveryChangesNothing(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	keys := r.tell(t, 50)
	deliver := func() {
		if _, err := r.store.Deliver(t.Context(), c, keys...); err != nil {
			t.Error(err)
		}
	}
	together(deliver, deliver, deliver)
	deliver()
	r.mustHaveEffects(t, keys...)
	if n := r.count(t, `SELECT sum(duplicates) FROM inbox WHERE consumer_group = $1 AND state = 'done'`, c.Group); n != 150 {
		t.Errorf("%d duplicates of 50 messages that were delivered four times", n)
	}
}

// Deliveries of the same messages in different orders do not wait for each other crosswise.
func TestDuplicatesAreCountedInOneOrder(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	keys := r.tell(t, 400)
	r.applyAll(t, c)
	deliver := func() {
		for range 10 {
			own := slices.Clone(keys)
			mathrand.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
			for batch := range slices.Chunk(own, 100) {
				if _, err := r.store.Deliver(t.Context(), c, batch...); err != nil {
					t.Error(err)
				}
			}
		}
	}
	together(deliver, deliver, deliver, deliver)
}

// Two workers have the same message: the lease of the first ran out. Whoever comes second is
// told that it is done, and nothing is left pending.
func TestCollisionLeavesNothingPending(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	keys := r.tell(t, 1)
	first := r.take(t, c)
	r.leaseOver(t, c.Group)
	second := r.take(t, c)
	var done, duplicates int
	answers := make(chan messages.Applied, 2)
	together(func() { answers <- r.apply(t, c, first) }, func() { answers <- r.apply(t, c, second) })
	for range 2 {
		a := <-answers
		done, duplicates = done+a.Done, duplicates+a.Duplicates
	}
	if done != 1 || duplicates != 1 || r.claims(t, c.Group, "pending") != 0 {
		t.Errorf("%d done, %d duplicates, %d pending", done, duplicates, r.claims(t, c.Group, "pending"))
	}
	r.leaseOver(t, c.Group)
	if again := r.take(t, c); len(again) > 0 {
		t.Errorf("handed out again: %+v", again)
	}
	r.mustHaveEffects(t, keys...)
}

func TestOvertakenDeliveryGivesItsEffectUp(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	keys := r.tell(t, 3)
	batch := r.take(t, c)
	var overtaking sync.Once
	slow := counting(func([]messages.Message) error {
		overtaking.Do(func() { r.apply(t, c, batch[:2]) })
		return nil
	})
	slow.Group = c.Group
	if a := r.apply(t, slow, batch); a.Done != 1 || a.Duplicates != 2 || a.Failed != 0 {
		t.Errorf("%+v", a)
	}
	r.mustHaveEffects(t, keys...)
}

func TestPoisonDiesAndItsNeighboursGoThrough(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	var poisons []string
	c := counting(func(batch []messages.Message) error { return poison(poisons...)(batch) })
	c.MaxTries = 4
	r.subscribed(t, c)
	keys := r.tell(t, 200)
	poisons = []string{keys[0], keys[100], keys[199]}
	if all := r.applyAll(t, c); all.Done != 197 || all.Failed != 3*4 || all.Dead != 3 || all.Duplicates != 0 {
		t.Errorf("%+v", all)
	}
	r.mustHaveEffects(t, slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(poisons, k) })...)
	letters, err := r.store.DeadLetters(t.Context(), c.Group, 10)
	if err != nil || len(letters) != 3 {
		t.Fatalf("%+v, %v", letters, err)
	}
	for i, letter := range letters {
		if letter.Key != poisons[i] || letter.Tries != 4 || !strings.Contains(letter.LastError, "cannot stomach") {
			t.Errorf("%+v", letter)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE consumer_group = $1 AND state = 'done' AND tries = 1`, c.Group); n != 197 {
		t.Errorf("%d neighbours went through in their first try", n)
	}
}

func TestFailureWaitsLongerEachTime(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := counting(func([]messages.Message) error { return errors.New("never") })
	c.Backoff = nil
	r.subscribed(t, c)
	r.tell(t, 1)
	for _, seconds := range []int{1, 2, 4, 8} {
		if applied := r.apply(t, c, r.take(t, c)); applied.Failed != 1 {
			t.Fatalf("%+v", applied)
		}
		if n := r.count(t, `SELECT round(extract(epoch FROM next_try_at - clock_timestamp()) + 0.4) FROM inbox WHERE consumer_group = $1`, c.Group); n != seconds {
			t.Errorf("the next try is in %d seconds, not %d", n, seconds)
		}
		r.leaseOver(t, c.Group)
	}
}

// effects that fail in one way or another keep nothing of themselves.
func TestFailedEffectLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]messages.Consumer{
		"error":  counting(func([]messages.Message) error { return errors.New("no\x00 \xff") }),
		"panic":  counting(func([]messages.Message) error { panic("oh") }),
		"longer": counting(func([]messages.Message) error { return errors.New(strings.Repeat("é", 5000)) }),
		"swallowed": consuming(func(ctx context.Context, tx messages.Tx) error {
			_, _ = tx.Exec(ctx, `SELECT 1 / 0`)
			return nil
		}),
		"refused at the commit": consuming(func(ctx context.Context, tx messages.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by) VALUES ($1, 'o', 'topup', 1, 'USD', 'hand')`, rand.Text())
			return err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMessagesRig(t)
			r.subscribed(t, c)
			r.tell(t, 2)
			if applied := r.apply(t, c, r.take(t, c)); applied.Done != 0 || applied.Failed != 2 {
				t.Errorf("%+v", applied)
			}
			if n := r.claims(t, c.Group, "pending"); n != 2 {
				t.Errorf("%d pending", n)
			}
			if n := r.count(t, `SELECT count(*) FROM inbox WHERE last_error <> '' AND tries = 1`); n != 2 {
				t.Errorf("%d failures are kept with their reason", n)
			}
			r.mustHaveEffects(t)
		})
	}
}

// A message alone is to blame for a lease that ran out; those of a batch come due, alone.
func TestBatchThatFailsIsLeftAtItsLeasesEnd(t *testing.T) {
	t.Parallel()
	for name, outlast := range map[string]func(context.Context, messages.Tx) error{
		"waits": func(ctx context.Context, _ messages.Tx) error { <-ctx.Done(); return ctx.Err() },
		"asleep": func(ctx context.Context, tx messages.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMessagesRig(t)
			c := r.subscribed(t, leased(200*time.Millisecond, consuming(outlast)))
			r.tell(t, 3)
			if applied := r.apply(t, c, r.take(t, c)); applied != (messages.Applied{}) {
				t.Errorf("%+v", applied)
			}
			if n := r.count(t, `SELECT count(*) FROM inbox WHERE state = 'pending' AND tries = 1 AND last_error IS NULL`); n != 3 {
				t.Errorf("%d of 3 messages are left to come due", n)
			}
			r.leaseOver(t, c.Group)
			if batch := r.take(t, c); len(batch) != 1 || r.apply(t, c, batch).Failed != 1 {
				t.Errorf("%+v", batch)
			}
			r.mustHaveEffects(t)
		})
	}
}

// The batch fails at once, and its first message alone takes what is left of the lease.
func TestMessagesBehindASlowOneKeepTheirTries(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	var calls int
	c := leased(200*time.Millisecond, consuming(func(ctx context.Context, _ messages.Tx) error {
		if calls++; calls > 1 {
			<-ctx.Done()
		}
		return errors.New("no")
	}))
	r.subscribed(t, c)
	r.tell(t, 5)
	r.apply(t, c, r.take(t, c))
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE state = 'pending' AND tries = 1`); calls != 2 || n != 5 {
		t.Errorf("applied %d times, %d of 5 messages were tried once", calls, n)
	}
}

func TestConsumerCannotEndItsTransaction(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			r := newMessagesRig(t)
			c := r.subscribed(t, consuming(func(ctx context.Context, tx messages.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			}))
			r.tell(t, 1)
			if applied := r.apply(t, c, r.take(t, c)); applied.Done != 0 || !strings.Contains(applied.Reason, "ended its transaction") {
				t.Errorf("%+v", applied)
			}
			if r.claims(t, c.Group, "done") != 0 {
				t.Error("it is done")
			}
		})
	}
	c := counting()
	c.Apply = func(_ context.Context, tx messages.Tx, _ []messages.Message) error {
		if _, whole := tx.(interface{ Conn() *pgx.Conn }); whole {
			t.Error("the consumer gets the connection")
		}
		return nil
	}
	r := newMessagesRig(t)
	r.subscribed(t, c)
	r.tell(t, 1)
	r.applyAll(t, c)
}

func consuming(then func(context.Context, messages.Tx) error) messages.Consumer {
	c := counting()
	first := c.Apply
	c.Apply = func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
		return errors.Join(first(ctx, tx, batch), then(ctx, tx))
	}
	return c
}

func leased(lease time.Duration, c messages.Consumer) messages.Consumer {
	c.Lease = lease
	return c
}

func TestEffectAndClaimCommitTogether(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(*pgproxy.Proxy) *pgproxy.Fault{
		"never committed":         func(p *pgproxy.Proxy) *pgproxy.Fault { return p.CutBeforeCommit("INSERT INTO effects") },
		"acknowledgement is lost": func(p *pgproxy.Proxy) *pgproxy.Fault { return p.SwallowCommit("INSERT INTO effects") },
		"marks it elsewhere":      func(p *pgproxy.Proxy) *pgproxy.Fault { return p.CutBeforeCommit("done_by = 'consumer'") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMessagesRig(t)
			proxy := pgproxy.Start(t, r.url)
			c := r.subscribed(t, counting())
			keys := r.tell(t, 5)
			batch := r.take(t, c)
			r.mustLoseOnce(t, proxy, func(s *postgres.Store) error {
				_, err := s.ApplyBatch(t.Context(), c, batch)
				if effects := r.count(t, `SELECT count(*) FROM effects`); effects != r.claims(t, c.Group, "done") {
					t.Errorf("%d effects and %d claims are done", effects, r.claims(t, c.Group, "done"))
				}
				return err
			}, strike(proxy))
			r.mustHaveEffects(t, keys...)
			if n := r.count(t, `SELECT count(*) FROM inbox WHERE consumer_group = $1 AND state = 'done' AND tries = 1 AND last_error IS NULL`, c.Group); n != 5 {
				t.Errorf("%d done in their only try", n)
			}
		})
	}
}

func TestRolledBackBatchIsNoFailureOfItsMessages(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := consuming(func(ctx context.Context, tx messages.Tx) error {
		_, err := tx.Exec(ctx, `DO $$ BEGIN RAISE deadlock_detected; END $$`)
		return err
	})
	r.subscribed(t, c)
	r.tell(t, 2)
	_, err := r.store.ApplyBatch(t.Context(), c, r.take(t, c))
	mustBe(t, err, onejob.ErrServerUnreachable)
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE last_error IS NULL AND tries = 1`); n != 2 {
		t.Errorf("%d claims are as before", n)
	}
}

func TestMessageIsOfEachGroupOnItsOwn(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	failing, working := counting(func([]messages.Message) error { return errors.New("no") }), counting()
	failing.MaxTries = 1
	r.subscribed(t, failing)
	r.subscribed(t, working)
	keys := r.tell(t, 3)
	r.applyAll(t, failing)
	r.applyAll(t, working)
	if dead, done := r.claims(t, failing.Group, "dead"), r.claims(t, working.Group, "done"); dead != 3 || done != 3 {
		t.Errorf("%d dead in one group, %d done in the other", dead, done)
	}
	r.mustHaveEffects(t, keys...)
}

func TestMessageNeverChanges(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	key := r.tell(t, 1)[0]
	r.applyAll(t, c)
	for _, sql := range []string{
		`UPDATE outbox SET payload = '{}' WHERE message_key = $1`,
		`UPDATE inbox SET state = 'pending', done_at = NULL, done_by = NULL WHERE message_key = $1`,
		`UPDATE inbox SET tries = 0 WHERE message_key = $1`,
	} {
		if _, err := r.hand.Exec(t.Context(), sql, key); err == nil {
			t.Errorf("not refused: %s", sql)
		}
	}
}

func TestStatementsAboutMessagesFindTheirRowsByIndex(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := counting(func(batch []messages.Message) error { return poison(batch[0].Key)(batch[:1]) })
	c.MaxTries = 2
	r.subscribed(t, c)
	r.tell(t, 20)
	r.store.Close()
	watched := r.through(t, withParameter(t, r.url, "enable_seqscan", "off"))
	watched.applyAll(t, c)
	letters, err := watched.store.DeadLetters(t.Context(), c.Group, 1)
	if err != nil || len(letters) != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
	_, delivered := watched.store.Deliver(t.Context(), c, letters[0].Key)
	_, counted := watched.store.Backlogs(t.Context())
	redriven := watched.store.RedriveIfDead(t.Context(), c.Group, letters[0].Key)
	_, pruned := watched.store.Prune(t.Context(), time.Hour, 10)
	if err := errors.Join(delivered, counted, redriven, pruned); err != nil {
		t.Fatal(err)
	}
	r.countReads(t, watched.store)
	for _, table := range []string{"inbox", "outbox"} {
		if read := r.count(t, `SELECT seq_scan FROM pg_stat_user_tables WHERE relname = $1`, table); read > 0 {
			t.Errorf("%s: read whole %d times", table, read)
		}
	}
}
