package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/onejob/onejob"
)

// health knows whether the servers behind the door answer. Whoever asks often is told what was
// found a moment ago.
type health struct {
	postgres, temporal func(context.Context) error
	logger             *slog.Logger

	mu    sync.Mutex
	found readiness
	at    time.Time
}

const (
	healthFor    = time.Second
	probeTimeout = 3 * time.Second
)

// readiness is what /readyz answers. Without Temporal the door still accepts jobs.
type readiness struct {
	Ready    bool   `json:"ready"`
	Postgres string `json:"postgres"` // ok, or what it lacks in a word
	Temporal string `json:"temporal"`
}

func newHealth(postgres, temporal func(context.Context) error, logger *slog.Logger) *health {
	return &health{postgres: postgres, temporal: temporal, logger: logger}
}

// look asks both servers, unless that was done a moment ago.
func (h *health) look(ctx context.Context) readiness {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.at) < healthFor {
		return h.found
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	var temporal error
	var asking sync.WaitGroup
	asking.Go(func() { temporal = h.temporal(ctx) })
	err := h.postgres(ctx)
	asking.Wait()
	found := readiness{Ready: err == nil, Postgres: inAWord(err), Temporal: inAWord(temporal)}
	if found != h.found {
		h.logger.Info("readiness", "ready", found.Ready, "postgres", err, "temporal", temporal)
	}
	h.found, h.at = found, time.Now()
	return found
}

func inAWord(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, onejob.ErrMisconfigured):
		return "misconfigured"
	}
	return "unreachable"
}

// addPublic adds what needs no token.
func (d *Door) addPublic() {
	d.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
	})
	d.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		found := d.health.look(r.Context())
		select {
		case <-d.draining:
			found.Ready = false // no more: others answer
		default:
		}
		status := http.StatusOK
		if !found.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, found)
	})
	d.mux.HandleFunc("GET /openapi.json", d.serveOpenAPI)
	d.mux.HandleFunc("GET /docs", d.serveDocs)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that went away reads nothing
}
