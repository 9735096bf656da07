// Package simulator is a provider that misbehaves on request. It is a real HTTP server
// with real connections: it can take a request and never answer, execute and hang up,
// answer late, in part, or with any status, and it counts what it was asked and what it
// executed, so that a test can say how often an effect really happened.
//
// POST /v1/run, or /v1/run/NAME to play the provider NAME, executes a JSON body. What
// goes wrong is said by the body's member "simulate" ([Directives]), else by the seeded
// [Plan]. The control API below /_simulator/ counts, releases, waits and resets;
// [Client] speaks it. It has no authentication: the simulator is for tests and
// demonstrations.
//
// Everything lives in memory and within bounds: bodies, requests in flight, names,
// waits. It imports nothing of this module.
package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds.
const (
	mostInputBytes   = 8 << 20
	mostInFlight     = 10_000  // requests to /v1/run
	mostWaiters      = 1_000   // requests to /_simulator/await
	mostSubjects     = 1 << 20 // jobs, attempts and keys counted between two resets
	mostGates        = 10_000  // names held or released between two resets
	mostKeptBytes    = 256 << 20
	longestAwait     = time.Minute
	defaultAwait     = 10 * time.Second
	headerTimeout    = 10 * time.Second
	shutdownPatience = 5 * time.Second
)

// Options say how the simulator behaves as a whole.
type Options struct {
	Plan Plan // for requests without directives; the zero plan has no faults

	// HonourKeys makes a request with the key of an executed one get the stored reply
	// without being executed again.
	HonourKeys bool
	KeyHeader  string // the header that carries the key; empty: Idempotency-Key
}

// Simulator is an [http.Handler]. Its methods may be called concurrently.
type Simulator struct {
	options  Options
	mux      *http.ServeMux
	inFlight chan struct{}
	waiters  chan struct{}

	mu   sync.Mutex
	plan Plan
	era  *era
}

// era is all that a reset forgets.
type era struct {
	board *board
	gates *gates
	kept  *replies
	ended chan struct{}
}

// New returns a simulator.
func New(o Options) *Simulator {
	if o.KeyHeader == "" {
		o.KeyHeader = "Idempotency-Key"
	}
	s := &Simulator{
		options: o, plan: o.Plan, era: newEra(), mux: http.NewServeMux(),
		inFlight: make(chan struct{}, mostInFlight), waiters: make(chan struct{}, mostWaiters),
	}
	s.mux.HandleFunc("POST /v1/run", s.run)
	s.mux.HandleFunc("POST /v1/run/{name...}", s.run)
	s.control()
	return s
}

func newEra() *era {
	ended := make(chan struct{})
	return &era{board: newBoard(ended), gates: newGates(), kept: newReplies(), ended: ended}
}

// ServeHTTP implements [http.Handler].
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Reset forgets every count, name and reply, restores the plan of the options, and
// drops the requests in flight without a reply.
func (s *Simulator) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.era.ended)
	s.era, s.plan = newEra(), s.options.Plan
}

// SetPlan replaces the plan for requests that arrive from now on.
func (s *Simulator) SetPlan(p Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = p
}

func (s *Simulator) current() (*era, Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era, s.plan
}

// Run serves on the listener until ctx ends, then drops what is held, and returns when
// every connection is closed. It closes the listener. An end by ctx is no error, unless
// a connection had to be cut because it did not end within 5 seconds.
func (s *Simulator) Run(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s, ReadHeaderTimeout: headerTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	s.Reset()
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownPatience)
	defer cancel()
	err := server.Shutdown(patience)
	if err != nil {
		err = errors.Join(fmt.Errorf("simulator: cut what did not end: %w", err), server.Close())
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		return errors.Join(err, end)
	}
	return err
}
