package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/postgres"
)

// beginner is a connection or a pool.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Certify gives a certificate that is valid for so long, for the contract of a kind, without
// the run that one comes of, and returns its id. With a time below zero it has expired.
func Certify(t testing.TB, hand beginner, kind string, p postgres.Proved, validFor time.Duration) (id int64) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), hand, func(tx pgx.Tx) error {
		// As a replica does: neither the run nor what it passed is asked for.
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), `
			INSERT INTO certificates (run_id, contract, contract_sha256, provider, model, adapter, passed_at, expires_at, report)
			SELECT $1, $2, $3, $4, $5, $6, at - interval '1 day', at + $7::bigint * interval '1 microsecond', '{}'
			FROM clock_timestamp() AS at
			RETURNING id`,
			uuid.New(), kind, p.ContractSHA256, p.Provider, p.Model, p.Adapter, validFor.Microseconds()).Scan(&id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}
