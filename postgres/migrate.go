package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/tern/v2/migrate"

	"github.com/onejob/onejob/migrations"
)

const versionTable = "onejob_schema_version"

// MigrationStatus says where the schema stands.
type MigrationStatus struct {
	Current int32 `json:"current"` // 0: nothing was run yet
	Newest  int32 `json:"newest"`  // what this program needs
}

// Migrate brings the schema of the database at url up to date and calls each with the
// name of every migration before it runs. Tern holds an advisory lock meanwhile, so any
// number of callers may do it at once; behind PgBouncer use a URL that goes past it.
func Migrate(ctx context.Context, url string, each func(name string)) (MigrationStatus, error) {
	return withMigrator(ctx, url, func(m *migrate.Migrator) error {
		m.OnStart = func(_ int32, name, _, _ string) { each(name) }
		return m.Migrate(ctx)
	})
}

// ReadMigrationStatus returns where the schema of the database at url stands.
func ReadMigrationStatus(ctx context.Context, url string) (MigrationStatus, error) {
	return withMigrator(ctx, url, func(*migrate.Migrator) error { return nil })
}

func withMigrator(ctx context.Context, url string, do func(*migrate.Migrator) error) (MigrationStatus, error) {
	config, err := poolConfig(url)
	if err != nil {
		return MigrationStatus{}, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return MigrationStatus{}, translate("connect", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return MigrationStatus{}, translate("prepare the migrations", err)
	}
	if err := m.LoadMigrations(migrations.Files); err != nil {
		return MigrationStatus{}, translate("load the migrations", err)
	}
	if err := do(m); err != nil {
		return MigrationStatus{}, translate("migrate", err)
	}
	current, err := m.GetCurrentVersion(ctx)
	return MigrationStatus{Current: current, Newest: newestMigration()}, translate("read the schema's version", err)
}

// newestMigration returns the highest number among the embedded files.
func newestMigration() (newest int32) {
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		panic(fmt.Errorf("migrations: %w", err)) // the pattern is a constant
	}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.ParseInt(number, 10, 32); err == nil {
			newest = max(newest, int32(n))
		}
	}
	return newest
}
