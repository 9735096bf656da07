package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/callbacks"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

const defaultDoorAddress = ":8080"

func newServe() *cobra.Command {
	var address, metrics string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer HTTP requests until interrupted",
		Long: `Answers HTTP requests until interrupted: /docs lists them, /openapi.json is for programs.
Health is at /healthz and /readyz. Providers' callbacks are heard, too: worker.callback_url
in onejob.yaml may be the base URL of this door. With --metrics, they are at /metrics of
an address of their own.

Whoever asks needs a token: see 'onejob token create'.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&address, "listen", defaultDoorAddress, "address to answer at; port 0: a free one")
	cmd.Flags().StringVar(&metrics, "metrics", "", "address of the metrics (default none); port 0: a free one")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		var at doorListeners
		if at.requests, err = listen(cmd.Context(), address, "--listen"); err != nil {
			return err
		}
		defer at.requests.Close()
		if metrics != "" {
			if at.metrics, err = listen(cmd.Context(), metrics, "--metrics"); err != nil {
				return err
			}
			defer at.metrics.Close()
		}
		return runDoor(cmd.Context(), c, at)
	}
	return cmd
}

// doorListeners are where a door answers.
type doorListeners struct {
	requests net.Listener
	metrics  net.Listener // nil: nobody reads them
}

// runDoor answers on the listeners until ctx ends.
func runDoor(ctx context.Context, c *config.Config, at doorListeners) error {
	metrics, counted := worker.NewMetrics(), api.NewMetrics()
	temporalMetrics, err := metrics.Temporal()
	if err == nil {
		err = metrics.Register(counted)
	}
	if err != nil {
		return err
	}
	conn, err := connect(ctx, temporalMetrics)
	if err != nil {
		return err
	}
	defer conn.close()
	heard, err := conn.callbacks(c, metrics)
	if err != nil {
		return err
	}
	options := conn.doorOptions(c, heard)
	options.Metrics = counted
	slog.Info("the door is open", "address", at.requests.Addr().String())
	door := func(ctx context.Context) error { return api.New(options).Run(ctx, at.requests) }
	if at.metrics == nil {
		return door(ctx)
	}
	slog.Info("metrics", "address", at.metrics.Addr().String())
	return runBoth(ctx, door, func(ctx context.Context) error { return metrics.Serve(ctx, at.metrics) })
}

func (c *connection) doorOptions(from *config.Config, heard http.Handler) api.Options {
	o := api.Options{
		Store:     c.store,
		Starter:   starter.New(starter.Options{Store: c.store, Temporal: c.temporal, Catalog: from.Catalog(), TaskQueue: taskQueue()}),
		Temporal:  c.checkTemporal,
		Limits:    from.Limits,
		Webhooks:  policyOf(from),
		Callbacks: heard,
		Rate:      api.Rate{PerSecond: from.Door.PerSecond, Burst: from.Door.Burst},
		Failures:  api.Rate{PerSecond: from.Door.Failures.PerSecond, Burst: from.Door.Failures.Burst},
		Proxies:   from.Door.Proxies,
		Version:   readVersion().Version,
	}
	o.OpenAI, o.Anthropic, o.DeriveKeys = vendorDoor(from.Door.OpenAI), vendorDoor(from.Door.Anthropic), from.Door.DeriveKeys
	o.Models = map[string]string{}
	for _, p := range from.Providers {
		o.Models[p.Name] = p.Model
	}
	if i := from.Door.OIDC; i != nil {
		o.OIDC = &api.OIDC{Issuer: i.Issuer, Audience: i.Audience, KeysURL: i.KeysURL, OwnerClaim: i.OwnerClaim, RoleClaim: i.RoleClaim}
	}
	return o
}

func vendorDoor(from *config.VendorDoor) *api.VendorDoor {
	if from == nil {
		return nil
	}
	return &api.VendorDoor{Kind: from.Kind, Provider: from.Provider, Fallbacks: from.Fallbacks, Models: from.Models}
}

// checkTemporal says whether Temporal answers.
func (c *connection) checkTemporal(ctx context.Context) error {
	if _, err := c.temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return onejob.Errorf(onejob.CodeServerUnreachable, "temporal does not answer: %w", err)
	}
	return nil
}

// callbacks hears the configured providers, and counts what they told.
func (c *connection) callbacks(from *config.Config, metrics *worker.Metrics) (http.Handler, error) {
	adapters, err := from.Adapters()
	if err != nil {
		return nil, fmt.Errorf("the door cannot hear callbacks: %w", err)
	}
	return callbacks.New(callbacks.Options{
		Store: c.store, Providers: provider.NewRegistry(adapters...), Limits: from.Limits,
		Tell: workflows.Runs{Client: c.temporal, TaskQueue: taskQueue()}, Observer: metrics, Logger: slog.Default(),
	}), nil
}
