// Package pgtest gives each test a migrated database of its own.
package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/migrations"
	"github.com/onejob/onejob/postgres"
)

// URL returns the URL of a migrated database that is dropped with the test.
func URL(t testing.TB) string {
	t.Helper()
	name := "onejob_template_" + schemaHash(t)
	if err := makeTemplate(t.Context(), testservers.PostgresURL(t), name); err != nil {
		t.Fatalf("make the template database: %v", err)
	}
	return testservers.DatabaseFrom(t, name)
}

// Store returns a store on such a database.
func Store(t testing.TB) *postgres.Store {
	t.Helper()
	return Open(t, URL(t))
}

// Open returns a store on the database at url, closed with the test.
func Open(t testing.TB, url string) *postgres.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// Connect returns a connection of its own to the database at url, for statements as a
// hand in psql would write them.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the database is dropped next
	return conn
}

// makeTemplate makes the database once per schema: whoever is first migrates it under
// the name of a draft, and renames it when it is done.
func makeTemplate(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock(hashtext($1))`, name); err != nil {
		return err
	}
	var there bool
	if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&there); err != nil || there {
		return err
	}
	return migrateDraft(ctx, conn, server, name)
}

func migrateDraft(ctx context.Context, conn *pgx.Conn, server, name string) error {
	draft := name + "_draft"
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + draft, "CREATE DATABASE " + draft + " TEMPLATE template0"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	address, err := url.Parse(server)
	if err != nil {
		return err
	}
	address.Path = "/" + draft
	if _, err := postgres.Migrate(ctx, address.String(), func(string) {}); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+draft+" RENAME TO "+name)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "42P04" {
		return nil
	}
	return err
}

func schemaHash(t testing.TB) string {
	t.Helper()
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for _, name := range names {
		text, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
