package dev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func startPostgres(t *testing.T, opts PostgresOptions) *Postgres {
	t.Helper()
	opts.Own, opts.Log = true, io.Discard
	pg, err := StartPostgres(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopPostgres(t, pg) })
	return pg
}

func stopPostgres(t *testing.T, pg *Postgres) {
	t.Helper()
	ctx, cancel := afterTest()
	defer cancel()
	if err := pg.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// dataFolder is a folder for persistent data which is removed whoever owns it. Only its
// owner may enter what t.TempDir returns, which is root as often as not.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "onejob-test-*")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func query[T any](t *testing.T, pg *Postgres, sql string) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// write commits one row which readBack finds.
func write(t *testing.T, pg *Postgres) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "create table word as select 'kept' as word"); err != nil {
		t.Fatal(err)
	}
}

func readBack(t *testing.T, pg *Postgres) {
	t.Helper()
	if word := query[string](t, pg, "select word from word"); word != "kept" {
		t.Fatalf("read %q", word)
	}
}

func TestTemporaryPostgresLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, PostgresOptions{Throwaway: true})
	pid, dir := pg.PID(), pg.Dir()
	if got := query[int](t, pg, "select 1"); got != 1 {
		t.Fatalf("select 1 = %d", got)
	}
	stopPostgres(t, pg)
	if !hasEnded(pid) {
		t.Errorf("process %d is still there", pid)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s is still there: %v", dir, err)
	}
	stopPostgres(t, pg) // a second time
}

func TestPostgresNeverRunsAsRoot(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, PostgresOptions{Throwaway: true})
	info, err := os.Stat(filepath.Join(pg.Dir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if owner == 0 || (os.Geteuid() != 0 && owner != os.Geteuid()) {
		t.Fatalf("the data belongs to user %d", owner)
	}
}

func TestSettingsAreDurableUnlessThrowaway(t *testing.T) {
	t.Parallel()
	for _, throwaway := range []bool{false, true} {
		pg := startPostgres(t, PostgresOptions{Throwaway: throwaway})
		if got, want := query[bool](t, pg, "select current_setting('fsync')::bool"), !throwaway; got != want {
			t.Errorf("throwaway %t: fsync is %t", throwaway, got)
		}
		if !query[bool](t, pg, "select current_setting('synchronous_commit')::bool") {
			t.Errorf("throwaway %t: synchronous_commit is off", throwaway)
		}
		if got := query[int](t, pg, "select current_setting('max_connections')::int"); got != 300 {
			t.Errorf("throwaway %t: max_connections is %d", throwaway, got)
		}
	}
}

func TestKilledPostgresKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, PostgresOptions{Throwaway: true})
	write(t, pg)
	pid, url := pg.PID(), pg.URL()
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if !hasEnded(pid) {
		t.Fatalf("process %d is there after Kill", pid)
	}
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pg.URL() != url || pg.PID() == pid {
		t.Errorf("after Restart: url %s, was %s; process %d, was %d", pg.URL(), url, pg.PID(), pid)
	}
	readBack(t, pg)
}

func TestPostgresDataSurvivesInItsFolder(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	pg := startPostgres(t, PostgresOptions{DataDir: dir})
	write(t, pg)
	stopPostgres(t, pg)
	readBack(t, startPostgres(t, PostgresOptions{DataDir: dir}))
}

func TestLeftPostmasterFileOfAnotherProcessDoesNotPreventAStart(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	pg := startPostgres(t, PostgresOptions{DataDir: dir, Throwaway: true})
	write(t, pg)
	left := filepath.Join(pg.Dir(), "data", "postmaster.pid")
	text, err := os.ReadFile(left)
	if err != nil {
		t.Fatal(err)
	}
	stopPostgres(t, pg)
	_, rest, _ := strings.Cut(string(text), "\n")
	// As after a restart of the machine: another process of the account has that id.
	other := startPostgres(t, PostgresOptions{Throwaway: true})
	if err := os.WriteFile(left, fmt.Appendf(nil, "%d\n%s", other.PID(), rest), 0o644); err != nil {
		t.Fatal(err)
	}
	readBack(t, startPostgres(t, PostgresOptions{DataDir: dir, Throwaway: true}))
}

func TestFolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	pg := startPostgres(t, PostgresOptions{DataDir: dir, Throwaway: true})
	second := PostgresOptions{DataDir: dir, Own: true, Log: io.Discard}
	if _, err := StartPostgres(t.Context(), second); !errors.Is(err, ErrInUse) {
		t.Fatalf("while its owner has it: %v, want ErrInUse", err)
	}
	pg.cluster.lock.release() // as if the owner had died and its server lived on
	_, err := StartPostgres(t.Context(), second)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(pg.PID())) {
		t.Fatalf("while a postmaster serves it: %v, want ErrInUse and its id", err)
	}
	if got := query[int](t, pg, "select 1"); got != 1 {
		t.Fatal("the refused start disturbed the server")
	}
}

func TestFailedStartTellsTheLastLinesOfTheLog(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	pg := startPostgres(t, PostgresOptions{DataDir: dir, Throwaway: true})
	stopPostgres(t, pg)
	config := filepath.Join(pg.Dir(), "data", "postgresql.conf")
	if err := os.WriteFile(config, []byte("no_such_setting = on\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := StartPostgres(t.Context(), PostgresOptions{DataDir: dir, Own: true, Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Fatalf("StartPostgres = %v, want the log's line about no_such_setting", err)
	}
}

func TestLostPortIsNotTheEnd(t *testing.T) {
	t.Parallel()
	pg := startPostgres(t, PostgresOptions{Throwaway: true})
	other := startPostgres(t, PostgresOptions{Throwaway: true})
	if err := other.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := other.start(t.Context(), pg.port); !errors.Is(err, errPortLost) {
		t.Fatalf("start on a taken port = %v, want errPortLost", err)
	}
	if err := other.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyThePostmasterOfTheDataServesIt(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"/usr/lib/postgresql/15/bin/postgres -D /x/data -p 1": true,
		"/usr/bin/postmaster -D /x/data":                      true,
		"postgres -D data":                                    true, // relative: may be ours
		"postgres":                                            true, // by PGDATA: may be ours
		"postgres -D /y/data":                                 false,
		"postgres: walwriter":                                 false,
		"vim /x/data/postgresql.conf":                         false,
		"":                                                    false,
	} {
		args := strings.Split(line, " ")
		if strings.HasPrefix(line, "postgres: ") {
			args = []string{line} // a title is one argument
		}
		if got := commandServes(args, "/x/data"); got != want {
			t.Errorf("%q serves the data: %t, want %t", line, got, want)
		}
	}
}

func TestFoldersOfKilledOwnersAreSweptAndOthersAreNot(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	old := time.Now().Add(-2 * abandonedAfter)
	folder := func(name string, locked time.Time) string {
		dir := mustMake(t, parent, name)
		lock, err := tryLock(filepath.Join(dir, lockName))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(lock.release)
		if err := os.Chtimes(filepath.Join(dir, lockName), locked, locked); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "held") {
			lock.release()
		}
		return dir
	}
	abandoned := folder("server-abandoned", old)
	kept := []string{
		folder("server-held", old), folder("server-fresh", time.Now()),
		folder("other", old), mustMake(t, parent, "server-unlocked"),
	}
	sweepAbandoned(parent, "server")
	if _, err := os.Stat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", abandoned, err)
	}
	for _, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestNewestInstalledVersionComesFirst(t *testing.T) {
	t.Parallel()
	if newestFirst("/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/9.6/bin") >= 0 {
		t.Error("9.6 comes before 17")
	}
}

func TestAccountCannotReachThroughAClosedFolder(t *testing.T) {
	t.Parallel()
	dir := dataFolder(t)
	other := account{name: "other", uid: os.Geteuid() + 1, gid: os.Getegid() + 1, switched: true}
	inside := filepath.Join(dir, "to-be-made")
	if !other.canReach(inside) {
		t.Errorf("%s is open to all", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if other.canReach(inside) {
		t.Errorf("%s is closed", dir)
	}
	if !(account{}).canReach(inside) {
		t.Error("our own account needs no look")
	}
}
