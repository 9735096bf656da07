package main

import (
	"context"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	sdklog "go.temporal.io/sdk/log"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/starter"
)

// connection is Postgres and Temporal, as the environment names them. It connects when
// it is first used: Temporal may be down while jobs are accepted.
type connection struct {
	store     *postgres.Store
	temporal  client.Client
	namespace string
}

// connect returns a connection to close. The metrics may be nil.
func connect(ctx context.Context, metrics client.MetricsHandler) (*connection, error) {
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return nil, err
	}
	temporal, namespace, err := connectTemporal(metrics)
	if err != nil {
		store.Close()
		return nil, err
	}
	return &connection{store: store, temporal: temporal, namespace: namespace}, nil
}

func (c *connection) close() {
	c.temporal.Close()
	c.store.Close()
}

// connectTemporal returns a client, and its namespace, by Temporal's own variables and
// profiles.
func connectTemporal(metrics client.MetricsHandler) (client.Client, string, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, "", onejob.Errorf(onejob.CodeMisconfigured, "temporal's variables or profile cannot be read: %w", err)
	}
	options.Logger = sdklog.NewStructuredLogger(slog.New(quieter{slog.Default().Handler(), slog.LevelWarn}))
	options.MetricsHandler = metrics
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, "", onejob.Errorf(onejob.CodeMisconfigured, "temporal's address or credentials cannot be used: %w", err)
	}
	return c, options.Namespace, nil
}

// quieter drops what is below its level.
type quieter struct {
	slog.Handler
	least slog.Level
}

func (q quieter) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= q.least && q.Handler.Enabled(ctx, level)
}

func (q quieter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(attrs), q.least}
}

func (q quieter) WithGroup(name string) slog.Handler {
	return quieter{q.Handler.WithGroup(name), q.least}
}

// useStore calls use with the store, for commands that need no Temporal.
func useStore(ctx context.Context, use func(*postgres.Store) error) error {
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer store.Close()
	return use(store)
}

// taskQueue is where workflows wait for workers; empty: the default.
func taskQueue() string { return os.Getenv("ONEJOB_TASK_QUEUE") }

// loadConfig reads the configuration that the environment names.
func loadConfig() (*config.Config, error) { return config.Load(config.Path()) }

// useStarter calls use with a starter for commands that name nothing of the configuration.
func useStarter(ctx context.Context, use func(*starter.Starter) error) error {
	return useCatalog(ctx, onejob.Catalog{}, use)
}

// useConfigured calls use with a starter that knows the configuration.
func useConfigured(ctx context.Context, use func(*starter.Starter) error) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	return useCatalog(ctx, c.Catalog(), use)
}

func useCatalog(ctx context.Context, catalog onejob.Catalog, use func(*starter.Starter) error) error {
	c, err := connect(ctx, nil)
	if err != nil {
		return err
	}
	defer c.close()
	return use(starter.New(starter.Options{Store: c.store, Temporal: c.temporal, Catalog: catalog, TaskQueue: taskQueue()}))
}
