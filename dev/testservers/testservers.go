// Package testservers gives tests the servers they run against: those which the
// environment names, as `make test` and dev/withservers set it. A test without them
// fails, it is never skipped.
package testservers

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	remedy = "run it by `make test`, or `go run ./dev/withservers -- go test ./...`"

	defaultNamespace = "default"
	templatePatience = 30 * time.Second // for a template that others are connected to
	templatePoll     = 50 * time.Millisecond
	dropPatience     = 30 * time.Second

	sqlStateObjectInUse = "55006"
)

// PostgresURL is the URL of the server's first database. A test that writes wants
// [Database].
func PostgresURL(t testing.TB) string {
	t.Helper()
	return variable(t, "DATABASE_URL")
}

// Temporal is the address, host:port, and the namespace of the server.
func Temporal(t testing.TB) (address, namespace string) {
	t.Helper()
	address = variable(t, "TEMPORAL_ADDRESS")
	if namespace = os.Getenv("TEMPORAL_NAMESPACE"); namespace == "" {
		namespace = defaultNamespace
	}
	return address, namespace
}

// TemporalCLI is the path of the Temporal CLI.
func TemporalCLI(t testing.TB) string {
	t.Helper()
	return variable(t, "ONEJOB_TEMPORAL_CLI")
}

func variable(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: %s", name, remedy)
	}
	return value
}

// Database makes an empty database for this test alone, and returns its URL. It is
// dropped at the end of the test, with the connections that are still open.
func Database(t testing.TB) string {
	t.Helper()
	return DatabaseFrom(t, "template0")
}

// DatabaseFrom is [Database] with a copy of the database template, which is on the same
// server. Others may copy it at the same time; it waits up to 30 seconds for those who
// are connected to it.
func DatabaseFrom(t testing.TB, template string) string {
	t.Helper()
	server := PostgresURL(t)
	name := "onejob_test_" + strings.ToLower(rand.Text())
	ctx, cancel := context.WithTimeout(t.Context(), templatePatience)
	defer cancel()
	if err := copyDatabase(ctx, server, template, name); err != nil {
		t.Fatalf("make database %s from %s: %v", name, template, err)
	}
	t.Cleanup(func() { drop(t, server, name) })
	address, err := withDatabase(server, name)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// copyDatabase repeats CREATE DATABASE while somebody is connected to the template.
func copyDatabase(ctx context.Context, server, template, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	statement := "create database " + quote(name) + " template " + quote(template)
	for {
		_, err := conn.Exec(ctx, statement)
		if !isObjectInUse(err) {
			return err
		}
		select {
		case <-time.After(templatePoll):
		case <-ctx.Done():
			return err
		}
	}
}

func isObjectInUse(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == sqlStateObjectInUse
}

func drop(t testing.TB, server, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), dropPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Errorf("drop database %s: %v", name, err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "drop database if exists "+quote(name)+" with (force)"); err != nil {
		t.Errorf("drop database %s: %v", name, err)
	}
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// withDatabase is the connection string server, a URL or "key=value" pairs, with another
// database.
func withDatabase(server, name string) (string, error) {
	if !strings.HasPrefix(server, "postgres://") && !strings.HasPrefix(server, "postgresql://") {
		return server + " dbname=" + name, nil
	}
	parsed, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	parsed.Path = "/" + name
	return parsed.String(), nil
}
