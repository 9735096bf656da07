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
	var address, callbacks string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run jobs until interrupted",
		Long: `Runs jobs until interrupted. Metrics are at /metrics, health at /livez and /readyz.

With --callbacks, providers that call back are heard there; worker.callback_url in
onejob.yaml is the base URL at which they reach that address.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&address, "listen", defaultHealthAddress, "address of metrics and health; port 0: a free one")
	cmd.Flags().StringVar(&callbacks, "callbacks", "", "address of the providers' callbacks (default none); port 0: a free one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		var doors workerDoors
		if doors.health, err = listen(cmd.Context(), address, "--listen"); err != nil {
			return err
		}
		defer doors.health.Close()
		if callbacks != "" {
			if doors.callbacks, err = listen(cmd.Context(), callbacks, "--callbacks"); err != nil {
				return err
			}
			defer doors.callbacks.Close()
		} else if c.Worker.CallbackURL != "" {
			slog.Warn("providers are told to call back, and this worker does not hear them: give --callbacks, unless another one does", "callback_url", c.Worker.CallbackURL)
		}
		return runWorker(cmd.Context(), c, doors)
	}
	return cmd
}

// workerDoors are where a worker answers.
type workerDoors struct {
	health    net.Listener
	callbacks net.Listener // nil: providers are not heard
}

// listen listens on the address that the flag gave.
func listen(ctx context.Context, address, flag string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "cannot listen: %w: choose another address with %s", err, flag)
	}
	return listener, nil
}

// runWorker runs a worker, and answers at its doors, until ctx ends and it has drained.
func runWorker(ctx context.Context, c *config.Config, doors workerDoors) error {
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
	slog.Info("metrics and health", "address", doors.health.Addr().String())
	return runBoth(ctx, w.Run, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error {
			return worker.Health{Store: conn.store, Temporal: conn.temporal, Metrics: metrics}.Serve(ctx, doors.health)
		})
		if doors.callbacks != nil {
			slog.Info("callbacks", "address", doors.callbacks.Addr().String())
			group.Go(func() error { return w.ServeCallbacks(ctx, doors.callbacks) })
		}
		return group.Wait()
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
		Contracts:        from.Contracts(),
		Limits:           from.Limits,
		Prices:           from.Prices,
		CallbackURL:      from.Worker.CallbackURL,
		TaskQueue:        taskQueue(),
		HeartbeatTimeout: from.Worker.HeartbeatTimeout,
		Drain:            from.Worker.Drain,
		CircuitFailures:  from.Worker.CircuitFailures,
		CircuitOpenFor:   from.Worker.CircuitOpenFor,
		Webhooks:         policyOf(from),
		Metrics:          metrics,
		Tokens:           tokensOf(from),
	})
}
