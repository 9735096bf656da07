package testservers

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func exists(t *testing.T, url string) bool {
	t.Helper()
	server := connect(t, PostgresURL(t))
	defer server.Close(t.Context())
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var found bool
	err = server.QueryRow(t.Context(),
		"select exists (select from pg_database where datname = $1)", config.Database).Scan(&found)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDatabaseIsDroppedAtTheEndOfItsTestThoughConnectionsAreOpen(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("inner", func(t *testing.T) {
		url = Database(t)
		connect(t, url) // stays open
		if !exists(t, url) {
			t.Fatal("no database was made")
		}
	})
	if exists(t, url) {
		t.Fatal("the database is still there")
	}
}

func TestManyTestsCopyOneTemplateAtOnce(t *testing.T) {
	t.Parallel()
	template := Database(t)
	conn := connect(t, template)
	if _, err := conn.Exec(t.Context(), "create table word as select 'here' as word"); err != nil {
		t.Fatal(err)
	}
	conn.Close(t.Context())
	name := template[strings.LastIndex(template, "/")+1 : strings.Index(template, "?")]
	for range 8 {
		t.Run("copy", func(t *testing.T) {
			t.Parallel()
			readWord(t, DatabaseFrom(t, name))
		})
	}
}

func readWord(t *testing.T, url string) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(t.Context())
	var word string
	if err := conn.QueryRow(t.Context(), "select word from word").Scan(&word); err != nil {
		t.Error(err)
	}
}

func TestCopyWaitsForThoseConnectedToTheTemplate(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig(Database(t))
	if err != nil {
		t.Fatal(err)
	}
	connected, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	var leaving sync.WaitGroup
	leaving.Go(func() {
		defer connected.Close(t.Context())
		if err := awaitSecondTry(t.Context(), PostgresURL(t), config.Database); err != nil {
			t.Error(err)
		}
	})
	DatabaseFrom(t, config.Database)
	leaving.Wait()
}

// awaitSecondTry waits until a copy of the template was refused and is tried again.
func awaitSecondTry(ctx context.Context, server, template string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	tries := map[time.Time]bool{}
	for len(tries) < 2 {
		var began *time.Time
		err := conn.QueryRow(ctx, `select max(query_start) from pg_stat_activity
			where query like 'create database%' and query like '%' || $1 || '%'`, template).Scan(&began)
		if err != nil {
			return err
		}
		if began != nil {
			tries[*began] = true
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func TestWithDatabaseKeepsTheRestOfTheConnectionString(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"postgres://u:p@h:1/first?sslmode=disable": "postgres://u:p@h:1/x?sslmode=disable",
		"host=h port=1 dbname=first":               "host=h port=1 dbname=first dbname=x",
	} {
		got, err := withDatabase(server, "x")
		if err != nil || got != want {
			t.Errorf("withDatabase(%q) = %q, %v; want %q", server, got, err, want)
		}
		config, err := pgx.ParseConfig(got)
		if err != nil || config.Database != "x" || config.Host != "h" {
			t.Errorf("pgx reads %q otherwise: %v", got, err)
		}
	}
}
