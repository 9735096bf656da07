package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

func TestGroupHearsFromTheBeginningOrFromNow(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	r.tell(t, 3)
	all, later := counting(), counting()
	later.From = messages.FromNow
	r.subscribed(t, all)
	r.subscribed(t, later)
	r.tell(t, 2)
	if a, l := r.claims(t, all.Group, "pending"), r.claims(t, later.Group, "pending"); a != 5 || l != 2 {
		t.Errorf("from the beginning %d of 5, from now %d of 2", a, l)
	}
	all.Topics = []string{testTopic, "other.happened"}
	r.subscribed(t, all)
	if n := r.count(t, `SELECT count(*) FROM subscriptions WHERE consumer_group = $1 AND backlog IS NULL`, all.Group); n != 2 {
		t.Errorf("hears %d topics", n)
	}
	if n := r.claims(t, all.Group, "pending"); n != 5 {
		t.Errorf("a further topic made %d claims of 5", n)
	}
}

// Writers whose transactions are open when a group subscribes were there before it and are
// not seen by it, nor do they see it: it must wait for them.
func TestNoMessageIsMissedByWhoSubscribesWhileItIsWritten(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	early, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := early.Exec(t.Context(), tellMessages, []string{testTopic + ":early"}, "o", testTopic); err != nil {
		t.Fatal(err)
	}
	c := counting()
	subscribed := make(chan error, 1)
	go func() { subscribed <- r.store.Subscribe(t.Context(), c.Group, c.Topics, c.From) }()
	r.await(t, "the subscription waits for the writer", `SELECT count(*) FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted`)
	if err := early.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-subscribed; err != nil {
		t.Fatal(err)
	}
	if n := r.claims(t, c.Group, "pending"); n != 1 {
		t.Errorf("%d claims of one message", n)
	}
}

// await waits until the query yields something else than 0.
func (r rig) await(t testing.TB, what, sql string, args ...any) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); r.count(t, sql, args...) == 0; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it did not happen", what)
		}
	}
}

func TestSubscribersAmongWritersGetEachMessageOnce(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	writing, stop := context.WithCancel(t.Context())
	defer stop()
	var writers, subscribers sync.WaitGroup
	begun := make(chan struct{}, 4)
	for range 4 {
		writers.Go(func() { r.write(t, writing, begun) })
		<-begun
	}
	var groups []messages.Consumer
	for i := range 6 {
		c := counting()
		c.From = []messages.From{messages.FromBeginning, messages.FromNow}[i%2]
		groups = append(groups, c)
		subscribers.Go(func() {
			if err := r.store.Subscribe(t.Context(), c.Group, c.Topics, c.From); err != nil {
				t.Error(err)
			}
		})
	}
	subscribers.Wait()
	r.tell(t, 1)
	stop()
	writers.Wait()
	for _, c := range groups {
		missed := r.count(t, `
			SELECT count(*) FROM outbox m WHERE NOT EXISTS (SELECT FROM inbox i WHERE i.consumer_group = $1 AND i.message_key = m.message_key)
			AND ($2 OR m.created_at > (SELECT since FROM subscriptions WHERE consumer_group = $1))`, c.Group, c.From == messages.FromBeginning)
		if missed > 0 || r.claims(t, c.Group, "pending") == 0 {
			t.Errorf("group %s (from %d) missed %d messages", c.Group, c.From, missed)
		}
	}
}

// write writes messages, one in each transaction, and tells when it has begun.
func (r rig) write(t *testing.T, ctx context.Context, begun chan<- struct{}) {
	for i := 0; ctx.Err() == nil; i++ {
		err := pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), tellMessages, []string{testTopic + ":" + rand.Text()}, "o", testTopic)
			if i == 0 {
				begun <- struct{}{}
			}
			return err
		})
		if err != nil {
			t.Error(err)
			return
		}
	}
}

func TestSubscriptionThatIsThereWaitsForNobody(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	writer, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(t.Context()) }()
	if _, err := writer.Exec(t.Context(), tellMessages, []string{testTopic + ":1"}, "o", testTopic); err != nil {
		t.Fatal(err)
	}
	r.subscribed(t, c)
}

// An outcome that waits for its job's row writes its message after a subscription: the group
// hears it, whatever isolation the database has by default.
func TestMessageOfAWriterThatWaitedIsHeardUnderAnyIsolation(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	a := r.started(t)
	r.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = ''repeatable read''', current_database()); END $$`)
	store := pgtest.Open(t, r.url)
	holder, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(t.Context()) }()
	if _, err := holder.Exec(t.Context(), `SELECT FROM jobs WHERE id = $1 FOR NO KEY UPDATE`, a.job.ID); err != nil {
		t.Fatal(err)
	}
	recorded := make(chan error, 1)
	go func() {
		_, err := store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.success(`{}`))
		recorded <- err
	}()
	r.await(t, "the writer waits for the row", `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	if err := store.Subscribe(t.Context(), "late", []string{"attempt.cost"}, messages.FromNow); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(holder.Rollback(t.Context()), <-recorded); err != nil {
		t.Fatal(err)
	}
	if n := r.claims(t, "late", "pending"); n != 1 {
		t.Errorf("%d claims", n)
	}
}

func TestTenSubscribersAtOnceAreOne(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	keys := r.tell(t, 100)
	c := counting()
	var ten []func()
	for range 10 {
		ten = append(ten, func() { r.subscribed(t, c) })
	}
	together(ten...)
	if all := r.applyAll(t, c); all.Done != 100 || all.Duplicates != 0 {
		t.Errorf("%+v", all)
	}
	r.mustHaveEffects(t, keys...)
}

// A worker that dies while it claims older messages leaves a subscription behind: the next
// one goes on where it was.
func TestBacklogIsClaimedToItsEnd(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload) SELECT $1 || ':' || n, 'o', $1, '{}' FROM generate_series(1, 12000) n`, testTopic)
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ('other:1', 'o', 'other', '{}')`)
	c := counting()
	r.exec(t, `INSERT INTO subscriptions (consumer_group, topic, backlog) VALUES ($1, $2, $3)`, c.Group, testTopic, testTopic+":3")
	r.subscribed(t, c)
	after := r.count(t, `SELECT count(*) FROM outbox WHERE topic = $1 AND message_key > $1 || ':3'`, testTopic)
	if n := r.claims(t, c.Group, "pending"); n != after || r.count(t, `SELECT count(*) FROM subscriptions WHERE backlog IS NOT NULL`) != 0 {
		t.Errorf("%d claims of %d messages", n, after)
	}
}

func TestOldMessagesGoWhenEveryGroupHasDoneThem(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload, created_at)
		SELECT $1 || ':' || n, 'o', $1, '{}', now() - n * interval '1 day' FROM generate_series(0, 9) n`, testTopic)
	r.applyAll(t, c)
	slow, dying := counting(), counting(func([]messages.Message) error { return errors.New("no") })
	dying.MaxTries = 1
	r.subscribed(t, slow)
	if n, err := r.store.Prune(t.Context(), 4*24*time.Hour+time.Hour, 100); err != nil || n != 0 {
		t.Errorf("%d deleted that a group has yet to apply: %v", n, err)
	}
	r.applyAll(t, slow)
	r.subscribed(t, dying)
	if _, err := r.store.Deliver(t.Context(), dying, testTopic+":9"); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `UPDATE inbox SET state = 'done', done_at = now(), done_by = 'discarded' WHERE consumer_group = $1 AND state = 'pending'`, dying.Group)
	var deleted []int
	for range 4 {
		n, err := r.store.Prune(t.Context(), 4*24*time.Hour+time.Hour, 3)
		if err != nil {
			t.Fatal(err)
		}
		deleted = append(deleted, n)
	}
	if got := fmt.Sprint(deleted); got != "[3 1 0 0]" {
		t.Errorf("deleted %s of those of 5 to 9 days, the last of which is a dead letter", got)
	}
	if n := r.count(t, `SELECT count(*) FROM inbox i LEFT JOIN outbox m USING (message_key) WHERE m.message_key IS NULL`); n != 0 {
		t.Errorf("%d claims are left without their message", n)
	}
}

func TestMessageThatANewGroupHasYetToClaimIsKept(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload, created_at) VALUES ($1 || ':1', 'o', $1, '{}', now() - interval '9 days')`, testTopic)
	r.exec(t, `INSERT INTO subscriptions (consumer_group, topic, backlog) VALUES ('new', $1, '')`, testTopic)
	if n, err := r.store.Prune(t.Context(), time.Hour, 100); err != nil || n != 0 {
		t.Errorf("%d deleted, %v", n, err)
	}
}

func TestEndedSubscriptionLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c, other := r.subscribed(t, counting()), r.subscribed(t, counting())
	keys := r.tell(t, 4)
	r.exec(t, `UPDATE inbox SET next_try_at = now() - interval '1 day', tries = 1 WHERE message_key = $1 AND consumer_group = $2`, keys[0], c.Group)
	r.exec(t, `UPDATE inbox SET state = 'dead', last_error = 'no' WHERE message_key = $1 AND consumer_group = $2`, keys[1], c.Group)
	if _, err := r.store.Deliver(t.Context(), c, keys[2]); err != nil {
		t.Fatal(err)
	}
	if n, err := r.store.Unsubscribe(t.Context(), c.Group, "ana", "no longer needed"); err != nil || n != 3 {
		t.Errorf("%d claims given up, %v", n, err)
	}
	r.tell(t, 1)
	if r.claims(t, c.Group, "done") != 4 || r.claims(t, c.Group, "pending") != 0 || r.claims(t, c.Group, "dead") != 0 {
		t.Error("the group has something to do")
	}
	if n := r.claims(t, other.Group, "pending"); n != 5 {
		t.Errorf("another group has %d of 5 messages to do", n)
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE done_by = 'discarded' AND starts_with(last_error, 'discarded by ana: no longer needed')`); n != 3 {
		t.Errorf("%d claims say who gave them up and why", n)
	}
	audit, err := r.store.Audit(t.Context(), postgres.AuditScope{}, nil)
	if err != nil || audit.Differences != 0 {
		t.Errorf("%+v, %v", audit, err)
	}
	_, err = r.store.Unsubscribe(t.Context(), c.Group, "ana", "again")
	mustBe(t, err, onejob.ErrNotFound)
}

// A writer that has seen the subscription writes its claim after the first look at them.
func TestMessageUnderWayWhenASubscriptionEndsIsGivenUpToo(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := r.subscribed(t, counting())
	writer, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Exec(t.Context(), tellMessages, []string{testTopic + ":late"}, "o", testTopic); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.store.Unsubscribe(t.Context(), c.Group, "ana", "no longer needed")
		ended <- err
	}()
	r.await(t, "the end waits for the writer", `SELECT count(*) FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted`)
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || r.claims(t, c.Group, "pending") != 0 || r.claims(t, c.Group, "done") != 1 {
		t.Errorf("the late message is still to be done: %v", err)
	}
}

func TestMessageWithAWebhookToSendIsKept(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload, created_at) SELECT 'job.failed:' || n, 'o', 'job.failed', '{}', now() - interval '9 days' FROM generate_series(1, 3) n`)
	r.exec(t, `INSERT INTO webhook_deliveries (message_key, owner_id, url, state, done_at) VALUES
		('job.failed:1', 'o', 'https://x.example', 'pending', NULL), ('job.failed:2', 'o', 'https://x.example', 'dead', NULL), ('job.failed:3', 'o', 'https://x.example', 'done', now())`)
	if n, err := r.store.Prune(t.Context(), time.Hour, 100); err != nil || n != 2 {
		t.Errorf("%d deleted, %v", n, err)
	}
	if n := r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'`); n != 1 {
		t.Errorf("%d deliveries are still to be made", n)
	}
}

func TestPoolerKeepsNotificationsAway(t *testing.T) {
	t.Parallel()
	direct := newRig(t)
	behind := direct.through(t, startPooler(t, direct))
	if err := behind.store.Listen(t.Context(), func(string) { t.Error("heard") }); !errors.Is(err, messages.ErrCannotListen) {
		t.Error(err)
	}
}
