package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/dev"
	"github.com/onejob/onejob/postgres"
)

// site is where a benchmark runs: its servers, its database and its provider.
type site struct {
	conditions Conditions
	postgres   *dev.Postgres
	conn       *pgx.Conn // to the server's first database
	databases  []string  // ours, to be dropped
	url        string    // of onejob's database
	ownName    string    // of onejob's database
	temporal   string    // address
	temporalDB []string  // its databases; none: they are not ours to read
	keeper     *process  // nil: the server is external
	provider   *process
	providerAt string
	dir        string
}

// Conditions are what figures depend on.
type Conditions struct {
	System     string  `json:"system"`
	Cores      int     `json:"cores"`
	Load       string  `json:"load_before,omitempty"` // of the machine, over one and five minutes
	Postgres   string  `json:"postgres"`
	Fsync      string  `json:"fsync"`
	Temporal   string  `json:"temporal"`
	ProviderMS float64 `json:"provider_ms"`
	Jobs       int     `json:"jobs"`
	Rounds     int     `json:"rounds"`
	Submitters int     `json:"submitters"`
}

// openDatabase starts Postgres, unless the environment names one.
func openDatabase(ctx context.Context, o options) (s *site, err error) {
	s = &site{conditions: Conditions{
		System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Load: loadAverage(),
		ProviderMS: float64(o.latency) / 1e6, Jobs: o.jobs, Rounds: o.rounds, Submitters: submitters,
	}}
	if s.dir, err = os.MkdirTemp("", "onejob-bench-*"); err == nil {
		err = s.openPostgres(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openSite starts what the environment does not name.
func openSite(ctx context.Context, o options) (s *site, err error) {
	if s, err = openDatabase(ctx, o); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := s.openTemporal(ctx, o); err != nil {
		return s, err
	}
	s.provider, err = startRole(ctx, roleProvider, task{Latency: o.latency}, &s.providerAt)
	return s, err
}

func (s *site) openPostgres(ctx context.Context) (err error) {
	if s.postgres, err = dev.StartPostgres(ctx, dev.PostgresOptions{Log: os.Stderr}); err != nil {
		return err
	}
	if s.conn, err = pgx.Connect(ctx, s.postgres.URL()); err != nil {
		return err
	}
	err = s.conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync')`).Scan(&s.conditions.Postgres, &s.conditions.Fsync)
	if err != nil {
		return err
	}
	if s.conditions.Fsync != "on" {
		progress("the Postgres of DATABASE_URL runs with fsync off: its figures are not those of one that survives a crash")
	}
	if s.ownName, err = s.makeDatabase(ctx, "jobs"); err != nil {
		return err
	}
	if s.url, err = withDatabase(s.postgres.URL(), s.ownName); err != nil {
		return err
	}
	_, err = postgres.Migrate(ctx, s.url, func(string) {})
	return err
}

// makeDatabase makes an empty database, which close drops.
func (s *site) makeDatabase(ctx context.Context, purpose string) (string, error) {
	name := "onejob_bench_" + strconv.FormatInt(time.Now().UnixNano(), 36) + "_" + purpose
	_, err := s.conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()+" TEMPLATE template0")
	if err == nil {
		s.databases = append(s.databases, name)
	}
	return name, err
}

func withDatabase(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return "", fmt.Errorf("DATABASE_URL is not a URL: write it as postgres://user@host/database")
	}
	u.Path = "/" + name
	return u.String(), nil
}

func (s *site) openTemporal(ctx context.Context, o options) (err error) {
	if s.temporal = os.Getenv("TEMPORAL_ADDRESS"); s.temporal != "" {
		s.conditions.Temporal = "running at " + s.temporal
		progress("the Temporal at TEMPORAL_ADDRESS is measured; its CPU and transactions are not known")
		return prepareNamespace(ctx, s.temporal)
	}
	binaries, err := builtTemporal(ctx)
	if err != nil {
		return err
	}
	s.conditions.Temporal = strings.TrimPrefix(binaries.version, "v") + " on that Postgres"
	if o.eager {
		s.conditions.Temporal += ", eager activities on"
	}
	for _, purpose := range []string{"temporal", "visibility"} {
		name, err := s.makeDatabase(ctx, purpose)
		if err != nil {
			return err
		}
		s.temporalDB = append(s.temporalDB, name)
	}
	progress("starting Temporal %s on Postgres", binaries.version)
	if s.keeper, s.temporal, err = startTemporal(ctx, binaries, s.dir, s.postgres.URL(), s.temporalDB[0], s.temporalDB[1], o.eager); err != nil {
		return err
	}
	alive, cancel := s.keeper.unlessItEnds(ctx)
	defer cancel()
	return prepareNamespace(alive, s.temporal)
}

// close stops what was started and drops what was made.
func (s *site) close() (err error) {
	for _, p := range []*process{s.provider, s.keeper} {
		if p != nil {
			err = errors.Join(err, p.end())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	if s.conn != nil {
		err = errors.Join(err, s.dropDatabases(ctx), s.conn.Close(ctx))
	}
	if s.postgres != nil {
		err = errors.Join(err, s.postgres.Stop(ctx))
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *site) dropDatabases(ctx context.Context) (err error) {
	if !s.postgres.External() {
		return nil // they go with the server
	}
	for _, name := range s.databases {
		_, dropErr := s.conn.Exec(ctx, "DROP DATABASE "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		err = errors.Join(err, dropErr)
	}
	return err
}
