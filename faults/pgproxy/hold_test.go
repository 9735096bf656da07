package pgproxy_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
)

// started runs do beside the test and returns what will receive its error.
func started(t *testing.T, do func() error) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	return ended
}

func result(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the client heard nothing within %v", patience)
		return nil
	}
}

// holds are the three moments, and what is committed while one lasts.
func holds() map[string]struct {
	place     func(*pgproxy.Proxy, string) *pgproxy.Hold
	committed string
} {
	return map[string]struct {
		place     func(*pgproxy.Proxy, string) *pgproxy.Hold
		committed string
	}{
		"before the statement": {(*pgproxy.Proxy).HoldBefore, ""},
		"before the commit":    {(*pgproxy.Proxy).HoldBeforeCommit, ""},
		"after the commit":     {(*pgproxy.Proxy).HoldAfterCommit, "note"},
	}
}

func TestHeldTransactionGoesOnWhenReleased(t *testing.T) {
	t.Parallel()
	database := testservers.Database(t)
	for name, moment := range holds() {
		for way, commit := range transactions() {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				r := newRigIn(t, database)
				hold := moment.place(r.proxy, "INTO notes")
				ended := started(t, func() error { return commit(t, r.conn, "note") })
				within(t, "the hold", hold.Reached())
				if got := r.notes(t); got != moment.committed {
					t.Errorf("committed while held: %q", got)
				}
				hold.Release()
				if err := result(t, ended); err != nil {
					t.Fatal(err)
				}
				if got := r.notes(t); got != "note" {
					t.Fatalf("committed: %q", got)
				}
			})
		}
	}
}

func TestHeldTransactionEndsWhenCut(t *testing.T) {
	t.Parallel()
	database := testservers.Database(t)
	for name, moment := range holds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, database)
			hold := moment.place(r.proxy, "INTO notes")
			ended := started(t, func() error { return r.inTx(t, "note") })
			within(t, "the hold", hold.Reached())
			hold.Cut()
			if err := result(t, ended); err == nil {
				t.Fatal("the client was told of a commit")
			}
			if got := r.notes(t); got != moment.committed {
				t.Fatalf("committed: %q", got)
			}
		})
	}
}

func TestHoldTakesOneStatementOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hold := r.proxy.HoldBefore("INTO notes")
	ended := started(t, func() error { return r.inTx(t, "held") })
	within(t, "the hold", hold.Reached())
	other := mustConnect(t, r.proxy.URL())
	mustExec(t, other, insert, "other")
	hold.Release()
	if err := result(t, ended); err != nil {
		t.Fatal(err)
	}
	if got := r.notes(t); got != "held other" {
		t.Fatalf("committed: %q", got)
	}
}

func TestPausedProxyLetsNothingPassUntilItResumes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Pause()
	ended := started(t, func() error { return r.inTx(t, "note") })
	connecting, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(connecting, r.proxy.URL()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a new connection does not hang: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the statement passed: %v", err)
	default:
	}
	r.proxy.Resume()
	if err := result(t, ended); err != nil {
		t.Fatal(err)
	}
}

func TestRefusingProxyCutsEverybodyUntilItResumes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.proxy.Refuse()
	if err := r.inTx(t, "gone"); err == nil {
		t.Error("a statement passed")
	}
	if _, err := pgx.Connect(t.Context(), r.proxy.URL()); err == nil {
		t.Error("a new connection was let in")
	}
	r.proxy.Resume()
	r.conn = mustConnect(t, r.proxy.URL())
	if err := r.inTx(t, "back"); err != nil {
		t.Fatal(err)
	}
	if got := r.notes(t); got != "back" {
		t.Fatalf("committed: %q", got)
	}
}

func TestCancelRequestReachesTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mustExec(t, r.direct, `BEGIN; LOCK notes`)
	ended := started(t, func() error { _, err := r.conn.Exec(t.Context(), insert, "note"); return err })
	r.waitUntilBlocked(t)
	if err := r.conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancelled, ok := errors.AsType[*pgconn.PgError](result(t, ended))
	if !ok || cancelled.Code != "57014" {
		t.Fatalf("the statement was not cancelled: %v", cancelled)
	}
}

// waitUntilBlocked waits until the connection through the proxy waits for a lock.
func (r rig) waitUntilBlocked(t *testing.T) {
	t.Helper()
	for blocked := false; !blocked; {
		err := r.direct.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock')`,
			r.conn.PgConn().PID()).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCountsCommittedTransactionsAndTheirStatements(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, commit := range transactions() {
		before, statements := r.proxy.Commits(), r.proxy.Statements()
		if err := commit(t, r.conn, name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := r.proxy.Commits() - before; got != 1 {
			t.Errorf("%s: %d commits", name, got)
		}
		want := 1
		if name == "pipeline" {
			want = 3
		}
		if got := r.proxy.Statements() - statements; got != want {
			t.Errorf("%s: %d statements", name, got)
		}
	}
}

func TestDoesNotCountWhatWasNotCommitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.conn.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	undone := errors.New("undone")
	if err := pgx.BeginFunc(t.Context(), r.conn, func(tx pgx.Tx) error { return undone }); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if _, err := r.conn.Exec(t.Context(), `SELECT 1/0`); err == nil {
		t.Fatal("no error passed")
	}
	if got := r.proxy.Commits(); got != 0 {
		t.Fatalf("%d commits", got)
	}
}

func TestLargeValuesAndCopiesPassUnchanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	large := make([]byte, 4<<20)
	for i := range large {
		large[i] = byte(i * i)
	}
	var back []byte
	if err := r.conn.QueryRow(t.Context(), `SELECT $1::bytea`, large).Scan(&back); err != nil || string(back) != string(large) {
		t.Fatalf("%d bytes came back: %v", len(back), err)
	}
	rows := [][]any{{"a"}, {"b"}}
	if n, err := r.conn.CopyFrom(t.Context(), pgx.Identifier{"notes"}, []string{"note"}, pgx.CopyFromRows(rows)); err != nil || n != 2 {
		t.Fatalf("copied %d: %v", n, err)
	}
}
