package messages_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// patience is what a test waits for what must happen.
const patience = 60 * time.Second

const topic = "thing.happened"

// rig is a database of the test's own, with a table that consumers add to.
type rig struct {
	url   string
	store *postgres.Store
	hand  *pgxpool.Pool
}

func newRig(t testing.TB) rig {
	t.Helper()
	url := pgtest.URL(t)
	hand, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hand.Close)
	r := rig{url: url, store: pgtest.Open(t, url), hand: hand}
	r.exec(t, `CREATE TABLE effects (message_key text NOT NULL)`)
	return r
}

func (r rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.hand.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r rig) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := r.hand.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// await waits until the query yields n.
func (r rig) await(t testing.TB, n int, sql string, args ...any) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		got := r.count(t, sql, args...)
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d, not %d: %s", got, n, sql)
		}
	}
}

// tell writes n messages in one transaction.
func (r rig) tell(t testing.TB, n int) {
	t.Helper()
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload)
		SELECT $1 || ':' || $2 || '-' || n, 'owner-' || n % 3, $1, json_build_object('n', n) FROM generate_series(1, $3::int) n`, topic, rand.Text(), n)
}

// counting adds a row of effects for each message.
func counting() messages.Consumer {
	return messages.Consumer{Group: "counting", Topics: []string{topic}, Apply: addEffects}
}

func addEffects(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
	keys := make([]string, len(batch))
	for i, m := range batch {
		keys[i] = m.Key
	}
	_, err := tx.Exec(ctx, `INSERT INTO effects SELECT unnest($1::text[])`, keys)
	return err
}

// tally adds up what runners tell.
type tally struct {
	mu  sync.Mutex
	all messages.Applied
}

func (t *tally) MessagesApplied(_ string, applied messages.Applied) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Add(applied)
}

// start runs the runner until the function that it returns is called, or the test ends.
func start(t testing.TB, r messages.Runner) (stop func()) {
	t.Helper()
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the runner ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// mustHaveAppliedOnce fails the test unless each message had its effect once.
func (r rig) mustHaveAppliedOnce(t testing.TB, n int) {
	t.Helper()
	const same = `SELECT count(*) FROM (SELECT message_key FROM effects GROUP BY 1 HAVING count(*) = 1) e JOIN outbox USING (message_key)`
	if once, all := r.count(t, same), r.count(t, `SELECT count(*) FROM effects`); once != n || all != n {
		t.Errorf("%d of %d messages had their effect once; there are %d effects", once, n, all)
	}
}

const done = `SELECT count(*) FROM inbox WHERE state = 'done'`
