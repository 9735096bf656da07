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
	mostRuns         = 20_000 // calls that can be looked up: the newest
	mostErrands      = 10_000 // accepted calls and callbacks under way
	mostDeliveries   = 10_000 // tries that are remembered: the newest
	mostControlBytes = 16 << 20
	mostScripts      = 2_000 // of a plan, and counted between two resets
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
	MostKeys   int    // the newest so many keys are remembered; 0: all

	// CallbackSecret signs callbacks; see [CheckSecret]. Without one there are none: a
	// request whose directives want one is refused.
	CallbackSecret string

	ClockSkew time.Duration // by which the header Date of every answer is ahead
}

// Simulator is an [http.Handler]. Its methods may be called concurrently.
type Simulator struct {
	options  Options
	signer   *signer // nil: no callbacks
	mux      *http.ServeMux
	inFlight chan struct{}
	waiters  chan struct{}

	mu   sync.Mutex
	plan Plan
	era  *era
}

// era is all that a reset forgets.
type era struct {
	board      *board
	gates      *gates
	kept       *replies
	runs       *runs
	deliveries *deliveries
	errands    *errands
	scripts    *scripts
	signer     *signer

	ctx context.Context // ends with the era
	end context.CancelFunc
}

// New returns a simulator. It panics if the options have a callback secret that
// [CheckSecret] refuses.
func New(o Options) *Simulator {
	if o.KeyHeader == "" {
		o.KeyHeader = "Idempotency-Key"
	}
	s := &Simulator{
		options: o, plan: o.Plan, mux: http.NewServeMux(),
		inFlight: make(chan struct{}, mostInFlight), waiters: make(chan struct{}, mostWaiters),
	}
	if o.CallbackSecret != "" {
		made, err := newSigner(o.CallbackSecret)
		if err != nil {
			panic(err)
		}
		s.signer = made
	}
	s.era = s.newEra()
	s.routes()
	s.control()
	return s
}

func (s *Simulator) newEra() *era {
	ctx, end := context.WithCancel(context.Background())
	board := newBoard(ctx.Done())
	return &era{
		board: board, gates: newGates(), kept: newReplies(s.options.MostKeys), runs: newRuns(mostRuns),
		deliveries: &deliveries{most: mostDeliveries, board: board}, errands: &errands{most: mostErrands}, scripts: &scripts{}, signer: s.signer,
		ctx: ctx, end: end,
	}
}

// ServeHTTP implements [http.Handler].
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.options.ClockSkew != 0 {
		w.Header().Set("Date", skewedDate(Duration(s.options.ClockSkew)))
	}
	s.mux.ServeHTTP(w, r)
}

// Reset forgets every count, name, call and reply, restores the plan of the options,
// drops the requests in flight without a reply, and ends what runs beside them.
func (s *Simulator) Reset() {
	before := s.nextEra()
	before.end()
	before.errands.end()
}

// nextEra begins a new era and returns the one before.
func (s *Simulator) nextEra() *era {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.era
	s.era, s.plan = s.newEra(), s.options.Plan
	return before
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
