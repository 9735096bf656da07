package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onejob/onejob"
)

// Store runs the statements on one database. It may be used concurrently.
type Store struct{ pool *pgxpool.Pool }

// Open returns a store for the database that url names, a Postgres URL or keyword
// string. It does not connect yet: see [Store.Check].
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := poolConfig(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, translate("open the pool", err)
	}
	return &Store{pool: pool}, nil
}

func poolConfig(url string) (*pgxpool.Config, error) {
	if url == "" {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "DATABASE_URL is not set: give the URL of a Postgres database, or run 'onejob dev'")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "DATABASE_URL cannot be read: %w", err)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.RuntimeParams["application_name"] = "onejob"
	if !strings.Contains(url, "default_query_exec_mode") {
		check := &poolerCheck{}
		config.BeforeConnect, config.AfterConnect = check.beforeConnect, check.afterConnect
	}
	if !strings.Contains(url, "pool_max_conns") {
		config.MaxConns = poolSize
	}
	return config, nil
}

// connectTimeout is for a server that is there and slow: one that is not refuses at once.
const connectTimeout = 5 * time.Second

// poolSize bounds the connections of one process. Transactions are short; more would wait
// for each other in Postgres instead of here.
const poolSize = 20

// Close closes the connections after their statements ended.
func (s *Store) Close() { s.pool.Close() }

// Check says whether the database answers and has the schema of this program.
func (s *Store) Check(ctx context.Context) error {
	var version int32
	var durability string
	if err := s.pool.QueryRow(ctx, `SELECT version, current_setting('synchronous_commit') FROM `+versionTable).Scan(&version, &durability); err != nil {
		return translate("read the schema's version", err)
	}
	if durability == "off" {
		return onejob.Errorf(onejob.CodeMisconfigured, "synchronous_commit is off: a crash of Postgres could forget an attempt that was called; set it to on for onejob's role or database")
	}
	if newest := newestMigration(); version < newest {
		return onejob.Errorf(onejob.CodeMisconfigured, "the database has schema version %d, this program needs %d: run 'onejob migrate up'", version, newest)
	} else if version > newest {
		return onejob.Errorf(onejob.CodeMisconfigured, "the database has schema version %d, this program knows %d: run a newer program", version, newest)
	}
	return nil
}

// boundedTx begins a transaction that the server ends when its client falls silent in
// the middle: a worker that froze would hold its job's lock for as long as it sleeps.
// The bound travels with BEGIN, so that it costs no round trip and no session state. Each
// statement sees what is committed, whatever the database's default: who waited for a lock
// must see what its holder wrote, and who writes a message the subscriptions of that moment.
var boundedTx = pgx.TxOptions{BeginQuery: "begin isolation level read committed; set local idle_in_transaction_session_timeout = '5s'"}

// inTx runs do in a transaction and commits it if do returned nil. What names the
// work in an error's line.
func (s *Store) inTx(ctx context.Context, what string, do func(pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, s.pool, boundedTx, do)
	return translate(what, err)
}

// lockedJob is the part of a job's row that decisions under its lock depend on.
type lockedJob struct {
	WorkflowID  string
	Status      onejob.Status
	Version     int
	CompletedBy *int
	Requested   *string
}

// lockJob locks the job's row and returns it. It fails with [onejob.ErrNotFound].
func lockJob(ctx context.Context, tx pgx.Tx, jobID string) (lockedJob, error) {
	rows, err := tx.Query(ctx, selectJobForUpdate, jobID)
	if err != nil {
		return lockedJob{}, err
	}
	return oneLockedJob(rows, jobID)
}

const selectJobForUpdate = `
	SELECT workflow_id, status, version, completed_by, requested_provider
	FROM jobs WHERE id = $1 FOR NO KEY UPDATE`

func oneLockedJob(rows pgx.Rows, jobID string) (lockedJob, error) {
	job, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[lockedJob])
	return job, orNotFound(err, "job %s does not exist: check the id", jobID)
}

func milliseconds(d time.Duration) int64 { return d.Milliseconds() }

// nullable returns nil, SQL's NULL, for the zero value.
func nullable[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
