package pgproxy_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is what a test waits for what must happen.
const patience = 20 * time.Second

// rig is a schema with one table, seen past the proxy and through it.
type rig struct {
	proxy  *pgproxy.Proxy
	direct *pgx.Conn
	conn   *pgx.Conn // through the proxy
}

func newRig(t *testing.T) rig {
	t.Helper()
	return newRigIn(t, testservers.Database(t))
}

// newRigIn makes the rig in the database at address, which others may use too.
func newRigIn(t *testing.T, address string) rig {
	t.Helper()
	schema := "rig_" + strings.ToLower(rand.Text())
	mustExec(t, mustConnect(t, address), `CREATE SCHEMA `+schema)
	address = withSearchPath(t, address, schema)
	proxy := pgproxy.Start(t, address)
	r := rig{proxy: proxy, direct: mustConnect(t, address), conn: mustConnect(t, proxy.URL())}
	mustExec(t, r.direct, `CREATE TABLE notes (note text PRIMARY KEY)`)
	return r
}

func withSearchPath(t *testing.T, address, schema string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String()
}

func mustConnect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the test is over
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// notes returns what was committed, in order.
func (r rig) notes(t *testing.T) string {
	t.Helper()
	rows, _ := r.direct.Query(t.Context(), `SELECT note FROM notes ORDER BY note`) // CollectRows returns its error
	notes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(notes, " ")
}

func within(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(patience):
		t.Fatalf("%s did not happen within %v", what, patience)
	}
}

const insert = `INSERT INTO notes VALUES ($1)`

// inTx inserts the note in a transaction of its own.
func (r rig) inTx(t *testing.T, note string) error {
	return pgx.BeginFunc(t.Context(), r.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), insert, note)
		return err
	})
}

// transactions are the ways in which a program may commit a note.
func transactions() map[string]func(*testing.T, *pgx.Conn, string) error {
	block := func(mode pgx.QueryExecMode) func(*testing.T, *pgx.Conn, string) error {
		return func(t *testing.T, conn *pgx.Conn, note string) error {
			return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), insert, mode, note)
				return err
			})
		}
	}
	return map[string]func(*testing.T, *pgx.Conn, string) error{
		"block with a prepared statement": block(pgx.QueryExecModeCacheStatement),
		"block with an unnamed statement": block(pgx.QueryExecModeExec),
		"block with a simple query":       block(pgx.QueryExecModeSimpleProtocol),
		"prepared statement alone": func(t *testing.T, conn *pgx.Conn, note string) error {
			_, err := conn.Exec(t.Context(), insert, note)
			return err
		},
		"simple query alone": func(t *testing.T, conn *pgx.Conn, note string) error {
			_, err := conn.Exec(t.Context(), insert, pgx.QueryExecModeSimpleProtocol, note)
			return err
		},
		"pipeline": func(t *testing.T, conn *pgx.Conn, note string) error {
			batch := &pgx.Batch{}
			batch.Queue(`SELECT 1`)
			batch.Queue(insert, note)
			batch.Queue(`SELECT 2`)
			return conn.SendBatch(t.Context(), batch).Close()
		},
		"commit by a prepared statement": func(t *testing.T, conn *pgx.Conn, note string) error {
			for _, sql := range []string{`BEGIN`, `INSERT INTO notes VALUES ('` + note + `')`, `COMMIT`} {
				if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeCacheStatement); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func TestSwallowedCommitIsCommittedAndNotAcknowledged(t *testing.T) {
	t.Parallel()
	database := testservers.Database(t)
	for name, commit := range transactions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, database)
			mustExec(t, r.conn, insert, "before")
			swallowed := r.proxy.SwallowCommit("INTO notes")
			if err := commit(t, r.conn, "lost"); err == nil || !r.conn.IsClosed() {
				t.Fatalf("the client was told: %v", err)
			}
			within(t, "the fault", swallowed.Fired())
			if got := r.notes(t); got != "before lost" {
				t.Fatalf("committed: %q", got)
			}
		})
	}
}

func TestTransactionCutBeforeCommitIsNeverCommitted(t *testing.T) {
	t.Parallel()
	database := testservers.Database(t)
	for name, commit := range transactions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigIn(t, database)
			cut := r.proxy.CutBeforeCommit("INTO notes")
			if err := commit(t, r.conn, "gone"); err == nil {
				t.Fatal("the client was told of a commit")
			}
			within(t, "the fault", cut.Fired())
			mustExec(t, r.direct, insert, "gone") // waits for the other's end, and fails if it committed
		})
	}
}

func TestRuleIsUsedUpByCommitsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mustExec(t, r.direct, insert, "taken")
	swallowed := r.proxy.SwallowCommit("INTO notes")
	if err := r.inTx(t, "taken"); err == nil || r.conn.IsClosed() {
		t.Fatalf("the refusal did not pass: %v", err)
	}
	mustExec(t, r.conn, `SELECT 1`)
	if err := r.inTx(t, "lost"); err == nil {
		t.Fatal("the commit was acknowledged")
	}
	within(t, "the fault", swallowed.Fired())
	r.conn = mustConnect(t, r.proxy.URL())
	if err := r.inTx(t, "next"); err != nil {
		t.Fatalf("the rule acted twice: %v", err)
	}
}
