package postgres

import (
	"context"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// poolerCheck finds out, on the first connection, whether a pooler such as PgBouncer stands
// between us and Postgres: a named prepared statement would be lost in it, since the next
// transaction may run on another session. Until that is known, and behind a pooler,
// statements are described and not named (docs/decisions.md).
type poolerCheck struct {
	mu    sync.Mutex
	known bool
	there bool
}

// beforeConnect chooses how the connection that is about to be made runs statements.
func (p *poolerCheck) beforeConnect(_ context.Context, config *pgx.ConnConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known || p.there {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// afterConnect asks the connection, unless an earlier one has told.
func (p *poolerCheck) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known {
		return nil
	}
	there, err := behindPooler(ctx, conn.PgConn())
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.there = true, there
	return nil
}

// behindPooler says whether the process that answers the connection is another one than
// the process that runs its statements.
func behindPooler(ctx context.Context, conn *pgconn.PgConn) (there bool, err error) {
	results, err := conn.Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return false, err
	}
	return string(results[0].Rows[0][0]) != strconv.FormatUint(uint64(conn.PID()), 10), nil
}
