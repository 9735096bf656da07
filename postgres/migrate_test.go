package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/migrations"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

func TestTenMigrationsAtOnceRunEachOnce(t *testing.T) {
	t.Parallel()
	address := testservers.Database(t)
	var mu sync.Mutex
	ran := map[string]int{}
	calls := make([]func(), 10)
	for i := range calls {
		calls[i] = func() {
			status, err := postgres.Migrate(t.Context(), address, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				ran[name]++
			})
			if err != nil || status.Current != status.Newest || status.Newest == 0 {
				t.Errorf("%+v, %v", status, err)
			}
		}
	}
	together(calls...)
	for name, times := range ran {
		if times != 1 {
			t.Errorf("%s ran %d times", name, times)
		}
	}
	status, err := postgres.ReadMigrationStatus(t.Context(), address)
	if err != nil || len(ran) != int(status.Newest) || status.Current != status.Newest {
		t.Errorf("ran %v of %+v, %v", ran, status, err)
	}
	again := func(name string) { t.Errorf("%s ran again", name) }
	if status, err := postgres.Migrate(t.Context(), address, again); err != nil || status.Current != status.Newest {
		t.Errorf("up to date: %+v, %v", status, err)
	}
}

func TestMigrationsGoDownWithoutATraceAndUpAgain(t *testing.T) {
	t.Parallel()
	address := testservers.Database(t)
	for range 2 {
		if _, err := postgres.Migrate(t.Context(), address, func(string) {}); err != nil {
			t.Fatal(err)
		}
		migrateDown(t, address)
		conn := pgtest.Connect(t, address)
		var left int
		err := conn.QueryRow(t.Context(), `
			SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname <> 'onejob_schema_version')
			     + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
			     + (SELECT count(*) FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typname NOT LIKE '%onejob_schema_version')`).Scan(&left)
		if err != nil || left != 0 {
			t.Fatalf("%d things are left behind, %v", left, err)
		}
		status, err := postgres.ReadMigrationStatus(t.Context(), address)
		if err != nil || status.Current != 0 {
			t.Errorf("%+v, %v", status, err)
		}
	}
}

func migrateDown(t *testing.T, address string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	m, err := migrate.NewMigrator(t.Context(), conn, "onejob_schema_version")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.LoadMigrations(migrations.Files), m.MigrateTo(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
}

func TestMissingSchemaNamesTheRemedy(t *testing.T) {
	t.Parallel()
	address := testservers.Database(t)
	store := pgtest.Open(t, address)
	mustSayMigrate := func(err error) {
		t.Helper()
		if mustBe(t, err, onejob.ErrMisconfigured); err == nil || !strings.Contains(err.Error(), "'onejob migrate up'") {
			t.Errorf("no remedy: %v", err)
		}
	}
	mustSayMigrate(store.Check(t.Context()))
	_, err := store.InsertJobs(t.Context(), newJob(t))
	mustSayMigrate(err)
	_, err = store.StartAttemptIfNoneLives(t.Context(), startOf(newJob(t), 1, 0))
	mustSayMigrate(err)
	_, err = store.ClaimForReconcile(t.Context(), time.Minute, 1)
	mustSayMigrate(err)
	if _, err := postgres.Migrate(t.Context(), address, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if err := store.Check(t.Context()); err != nil {
		t.Errorf("migrated: %v", err)
	}
	if _, err := pgtest.Connect(t, address).Exec(t.Context(), `UPDATE onejob_schema_version SET version = version - 1`); err != nil {
		t.Fatal(err)
	}
	mustSayMigrate(store.Check(t.Context()))
}

func TestSchemaOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(t, `UPDATE onejob_schema_version SET version = version + 1`)
	err := r.store.Check(t.Context())
	if mustBe(t, err, onejob.ErrMisconfigured); err == nil || !strings.HasSuffix(err.Error(), "run a newer program") {
		t.Errorf("no remedy: %v", err)
	}
}

// A program from before the ledger cannot book what it calls for: it is stopped before it
// calls, where it starts the attempt.
func TestProgramFromBeforeTheLedgerStartsNoAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := r.failing(t).job
	_, err := r.hand.Exec(t.Context(), `
		INSERT INTO attempts (job_id, number, lane, provider, job_version, execution, request, sent_to)
		VALUES ($1, 2, 0, 'primary', 0, gen_random_uuid(), NULL, NULL) ON CONFLICT (job_id, number) DO NOTHING`, job.ID)
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.ColumnName != "model" {
		t.Errorf("it may start one: %v", err)
	}
}

func TestURLThatCannotWorkIsMisconfigured(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "postgres://%zz", "host=x port=many"} {
		_, err := postgres.Open(t.Context(), address)
		mustBe(t, err, onejob.ErrMisconfigured)
		_, err = postgres.Migrate(t.Context(), address, func(string) {})
		mustBe(t, err, onejob.ErrMisconfigured)
	}
	nowhere, err := url.Parse(testservers.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	nowhere.Path = "/no_such_database"
	mustBe(t, pgtest.Open(t, nowhere.String()).Check(t.Context()), onejob.ErrMisconfigured)
}

func TestUnreachableServerIsSaidSoInBoundedTime(t *testing.T) {
	t.Parallel()
	silent := pgproxy.Start(t, pgtest.URL(t))
	silent.Pause()
	refusing := pgproxy.Start(t, pgtest.URL(t))
	refusing.Refuse()
	for name, address := range map[string]string{"silent": silent.URL(), "cuts": refusing.URL(), "refuses": closedPort(t), "has no name": "postgres://no-such-host.invalid/x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			store := pgtest.Open(t, address)
			mustBe(t, store.Check(ctx), onejob.ErrServerUnreachable)
			_, err := store.InsertJobs(ctx, newJob(t))
			mustBe(t, err, onejob.ErrServerUnreachable)
			_, err = postgres.ReadMigrationStatus(ctx, address)
			mustBe(t, err, onejob.ErrServerUnreachable)
			if ctx.Err() != nil {
				t.Errorf("it took longer than %v", patience)
			}
		})
	}
}

// closedPort returns the URL of a port that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "postgres://" + listener.Addr().String() + "/x?sslmode=disable"
}

func TestServerThatFallsSilentIsGivenUpWithTheContext(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	proxy := pgproxy.Start(t, address)
	r := newRigAt(t, address)
	a := r.started(t)
	store := pgtest.Open(t, proxy.URL())
	if err := store.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := store.RecordOutcomeIfLive(ctx, a.job.ID, 1, a.failure())
	mustBe(t, err, onejob.ErrServerUnreachable)
	proxy.Resume()
	recorded, err := store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.failure())
	if err != nil || recorded.Late || recorded.Attempt.State != onejob.AttemptFailed {
		t.Errorf("when it is back: %+v, %v", recorded, err)
	}
}
