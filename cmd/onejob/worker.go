package main

import (
	"context"
	"log/slog"
	"net"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
)

const defaultHealthAddress = "127.0.0.1:9090"

func newWorker() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run jobs until interrupted",
		Long:  "Runs jobs until interrupted. Metrics are at /metrics, health at /livez and /readyz.",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&address, "listen", defaultHealthAddress, "address of metrics and health; port 0: a free one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		listener, err := listen(cmd.Context(), address)
		if err != nil {
			return err
		}
		return runWorker(cmd.Context(), c, listener)
	}
	return cmd
}

// listen listens on the address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "cannot listen: %w: choose another address with --listen", err)
	}
	return listener, nil
}

// runWorker runs a worker, and answers on the listener, until ctx ends and it has
// drained. It closes the listener.
func runWorker(ctx context.Context, c *config.Config, listener net.Listener) error {
	defer listener.Close()
	for _, notice := range c.Notices {
		slog.Warn("configured and not used", "notice", notice)
	}
	metrics := worker.NewMetrics()
	temporalMetrics, err := metrics.Temporal()
	if err != nil {
		return err
	}
	conn, err := connect(ctx, temporalMetrics)
	if err != nil {
		return err
	}
	defer conn.close()
	w, err := conn.worker(c, metrics)
	if err != nil {
		return err
	}
	slog.Info("metrics and health", "address", listener.Addr().String())
	return runBoth(ctx, w.Run, func(ctx context.Context) error {
		return worker.Health{Store: conn.store, Temporal: conn.temporal, Metrics: metrics}.Serve(ctx, listener)
	})
}

// runBoth runs both until ctx ends, or one of them does. Beside serves as long as main
// runs, its drain included.
func runBoth(ctx context.Context, main, beside func(context.Context) error) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return beside(serving) })
	group.Go(func() error {
		defer stopServing()
		return main(ctx)
	})
	return group.Wait()
}

// worker returns a worker of the configured providers.
func (c *connection) worker(from *config.Config, metrics *worker.Metrics) (*worker.Worker, error) {
	providers, err := from.Adapters()
	if err != nil {
		return nil, err
	}
	return worker.New(worker.Config{
		Store:            c.store,
		Temporal:         c.temporal,
		Namespace:        c.namespace,
		Providers:        provider.NewRegistry(providers...),
		Kinds:            from.Catalog().Kinds,
		Limits:           from.Limits,
		TaskQueue:        taskQueue(),
		HeartbeatTimeout: from.Worker.HeartbeatTimeout,
		Drain:            from.Worker.Drain,
		Metrics:          metrics,
	})
}
