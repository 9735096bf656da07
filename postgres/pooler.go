package postgres

import (
	"context"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// poolerCheck finds out, once, whether a pooler such as PgBouncer stands between us and
// Postgres: a named prepared statement would be lost in it, since the next transaction may
// run on another session. Behind one, statements are described and not named, which costs
// Postgres about half as much again for each (docs/performance.md).
type poolerCheck struct {
	mu    sync.Mutex
	known bool
	there bool
}

// beforeConnect chooses how the connection that is about to be made runs statements. If
// the check cannot connect, nor could the pool: its error is the pool's.
func (p *poolerCheck) beforeConnect(ctx context.Context, config *pgx.ConnConfig) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		there, err := behindPooler(ctx, &config.Config)
		if err != nil {
			return err
		}
		p.known, p.there = true, there
	}
	if p.there {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// behindPooler says whether the process that answers the connection is another one than
// the process that runs its statements.
func behindPooler(ctx context.Context, config *pgconn.Config) (there bool, err error) {
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing was written on it
	results, err := conn.Exec(ctx, `SELECT pg_backend_pid()`).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return false, err
	}
	return string(results[0].Rows[0][0]) != strconv.FormatUint(uint64(conn.PID()), 10), nil
}
