package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/workflows"
)

func newMigrate() *cobra.Command {
	return newGroup("migrate", "Bring Postgres and Temporal up to what this program needs", newMigrateUp(), newMigrateStatus())
}

// migration is where Postgres and Temporal stand.
type migration struct {
	postgres.MigrationStatus
	SearchAttributes *attributesStatus `json:"search_attributes"` // null: Temporal was not asked
}

type attributesStatus struct {
	Namespace string   `json:"namespace"`
	Missing   []string `json:"missing"`
}

func newMigrateUp() *cobra.Command {
	var skipTemporal bool
	cmd := &cobra.Command{Use: "up", Short: "Run the migrations, register the search attributes and make the schedules", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&skipTemporal, "skip-temporal", false, "leave Temporal alone")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m, err := migrateUp(cmd.Context(), skipTemporal)
		if err != nil {
			return err
		}
		return printAs(cmd, output, m, m.table)
	}
	return cmd
}

// migrateUp brings Postgres, and unless skipTemporal the namespace, up to date.
func migrateUp(ctx context.Context, skipTemporal bool) (m migration, err error) {
	m.MigrationStatus, err = postgres.Migrate(ctx, os.Getenv("DATABASE_URL"), func(name string) {
		slog.Info("migrating", "migration", name)
	})
	if err != nil || skipTemporal {
		return m, err
	}
	temporal, namespace, err := connectTemporal(nil)
	if err != nil {
		return m, err
	}
	defer temporal.Close()
	registered, err := workflows.RegisterSearchAttributes(ctx, temporal, namespace)
	if len(registered) > 0 && err == nil {
		slog.Info("registered search attributes", "namespace", namespace, "names", registered)
	}
	m.SearchAttributes = &attributesStatus{Namespace: namespace, Missing: []string{}}
	if err != nil {
		return m, err
	}
	return m, workflows.EnsureSchedules(ctx, temporal, cmp.Or(taskQueue(), workflows.TaskQueue))
}

func newMigrateStatus() *cobra.Command {
	var skipTemporal bool
	cmd := &cobra.Command{Use: "status", Short: "Print where Postgres and Temporal stand", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&skipTemporal, "skip-temporal", false, "leave Temporal alone")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m, err := readMigration(cmd.Context(), skipTemporal)
		if err != nil {
			return err
		}
		return printAs(cmd, output, m, m.table)
	}
	return cmd
}

func readMigration(ctx context.Context, skipTemporal bool) (m migration, err error) {
	m.MigrationStatus, err = postgres.ReadMigrationStatus(ctx, os.Getenv("DATABASE_URL"))
	if err != nil || skipTemporal {
		return m, err
	}
	temporal, namespace, err := connectTemporal(nil)
	if err != nil {
		return m, err
	}
	defer temporal.Close()
	missing, err := workflows.MissingSearchAttributes(ctx, temporal, namespace)
	m.SearchAttributes = &attributesStatus{Namespace: namespace, Missing: append([]string{}, missing...)}
	return m, err
}

func (m migration) table(w io.Writer) {
	rows := [][]string{{"schema version", fmt.Sprint(m.Current)}, {"needed", fmt.Sprint(m.Newest)}}
	if m.SearchAttributes != nil {
		rows = append(rows, []string{"temporal namespace", m.SearchAttributes.Namespace},
			[]string{"missing search attributes", strings.Join(m.SearchAttributes.Missing, ", ")})
	}
	writeTable(w, rows...)
}
