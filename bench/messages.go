package main

import (
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/postgres"
)

// targetMessages is the project's: of a group's messages/s beside the same statements bare.
const targetMessages = 0.7

// runMessages measures messages and writes the report.
func runMessages(ctx context.Context, o options, w io.Writer) (err error) {
	s, err := openDatabase(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	m, err := newMessageBench(ctx, s)
	if err != nil {
		return err
	}
	defer m.close(ctx)
	report := MessageReport{Conditions: s.conditions}
	if report.Groups, err = m.compareGroups(ctx, o.rounds); err != nil {
		return err
	}
	if report.Lag, err = m.lag(ctx); err != nil {
		return err
	}
	if report.Backlog, err = m.backlog(ctx, o.backlog); err != nil {
		return err
	}
	if o.output == "json" {
		return writeIndented(w, report)
	}
	return report.print(w)
}

// messageBench is a database with jobs whose costs are booked at will.
type messageBench struct {
	store *postgres.Store
	conn  *pgx.Conn
	last  int // number of the last entry
}

const messageJobs = 200

func newMessageBench(ctx context.Context, s *site) (*messageBench, error) {
	store, err := postgres.Open(ctx, s.url)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		store.Close()
		return nil, err
	}
	m := &messageBench{store: store, conn: conn}
	return m, m.asHand(ctx, `
		INSERT INTO jobs (id, owner_id, idempotency_key, workflow_id, kind, provider, input, fingerprint, fingerprint_version, timeout_ms, listen_for_ms, max_attempts)
		SELECT `+messageJob+`, 'owner-' || n, n, 'job/' || n, (ARRAY['invoice', 'ticket'])[1 + n % 2], 'primary', '{}', sha256(n::text::bytea), 1, 1000, 2000, 3
		FROM generate_series(1, $1::int) n`, messageJobs)
}

// messageJob is the id of job n.
const messageJob = `('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid`

func (m *messageBench) close(ctx context.Context) {
	m.store.Close()
	_ = m.conn.Close(ctx) // nothing is open in it
}

// asHand writes rows past the rules, which ask for attempts that are not there.
func (m *messageBench) asHand(ctx context.Context, sql string, args ...any) error {
	return pgx.BeginFunc(ctx, m.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

// book writes n further costs of today into the ledger, of all owners and of four models.
func (m *messageBench) book(ctx context.Context, n int) (first int, err error) {
	first = m.last + 1
	m.last += n
	return first, m.asHand(ctx, `
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, recorded_by)
		SELECT 'attempt.cost:' || e, 'owner-' || n, 'cost', 0.000012, 'USD', `+messageJob+`, e, 'primary', 'm-' || e % 4,
			'{"input_tokens": 10, "output_tokens": 3}', 'bench'
		FROM generate_series($1::int, $2::int) e, LATERAL (SELECT 1 + e % $3::int AS n) x`, first, m.last, messageJobs)
}

// tell writes the messages of the entries from first to last, in one transaction.
func (m *messageBench) tell(ctx context.Context, first, last int) error {
	_, err := m.conn.Exec(ctx, `
		INSERT INTO outbox (message_key, owner_id, topic, payload)
		SELECT 'attempt.cost:' || e, 'owner-' || 1 + e % $3::int, 'attempt.cost', '{}' FROM generate_series($1::int, $2::int) e`, first, last, messageJobs)
	return err
}

// bookAndTell writes n entries with their messages, and brings the statistics up to date.
func (m *messageBench) bookAndTell(ctx context.Context, n int) error {
	first, err := m.book(ctx, n)
	if err == nil {
		err = m.tell(ctx, first, m.last)
	}
	if err == nil {
		_, err = m.conn.Exec(ctx, `VACUUM ANALYZE ledger, outbox, inbox`)
	}
	return err
}
