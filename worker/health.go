package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob/postgres"
)

// Health answers on one port: /metrics for Prometheus; /livez, that the process runs;
// /readyz, that Postgres has the schema and Temporal answers, else 503 with the reason.
type Health struct {
	Store    *postgres.Store
	Temporal client.Client
	Metrics  *Metrics
}

const probeTimeout = 3 * time.Second

// Serve answers on the listener until ctx ends.
func (h Health) Serve(ctx context.Context, listener net.Listener) error {
	return serve(ctx, listener, "metrics and health", &http.Server{Handler: h.handler(), ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second})
}

// Serve answers /metrics, and nothing else, on the listener until ctx ends.
func (m *Metrics) Serve(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler())
	return serve(ctx, listener, "metrics", &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second})
}

func (m *Metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// callbackTimeout is what a callback of the largest size gets.
const callbackTimeout = time.Minute

// ServeCallbacks answers [Worker.Callbacks] on the listener until ctx ends.
func (w *Worker) ServeCallbacks(ctx context.Context, listener net.Listener) error {
	return serve(ctx, listener, "callbacks", &http.Server{
		Handler: w.Callbacks(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout + 10*time.Second,
	})
}

// serve serves until ctx ends.
func serve(ctx context.Context, listener net.Listener, what string, server *http.Server) error {
	server.IdleTimeout, server.MaxHeaderBytes = time.Minute, 1<<16
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		if server.Shutdown(closing) != nil {
			_ = server.Close() // the grace is over
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", what, err)
	}
	return nil
}

func (h Health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h.Metrics.handler())
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := h.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func (h Health) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := h.Temporal.CheckHealth(ctx, nil)
	return errors.Join(h.Store.Check(ctx), err)
}
