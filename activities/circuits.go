package activities

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// Circuits is the circuit breaker of a worker. It counts, for each provider, the calls in a
// row that found nobody who serves them; after that many the provider is not called by any
// worker for a time, and then by one attempt every 30 s at most, until one is served. Which circuits
// are open stands in Postgres; a worker learns of the others' by Refresh, so that a call to a
// provider that is well asks nobody.
type Circuits struct {
	CircuitOptions

	mu     sync.Mutex
	failed map[string]int       // in a row, by provider
	open   map[string]time.Time // until when, by provider, as far as this worker knows
	trying map[string]bool      // by a call of this worker that was not answered yet
}

// CircuitOptions are what circuits work with.
type CircuitOptions struct {
	Store    *postgres.Store
	Failures int           // in a row, that open a circuit; 0: only people open one
	OpenFor  time.Duration // at first; doubles each time it opens again, up to longestOpen
	Logger   *slog.Logger
}

// NewCircuits returns circuits that are closed until Refresh knows better.
func NewCircuits(o CircuitOptions) *Circuits {
	return &Circuits{CircuitOptions: o, failed: map[string]int{}, open: map[string]time.Time{}, trying: map[string]bool{}}
}

const (
	longestOpen = 10 * time.Minute
	// tryFor is for how long a try keeps others from trying.
	tryFor = 30 * time.Second
)

// Refresh learns which circuits are open.
func (c *Circuits) Refresh(ctx context.Context) ([]postgres.Circuit, error) {
	circuits, err := c.Store.Circuits(ctx)
	if err != nil {
		return nil, err
	}
	open := map[string]time.Time{}
	for _, circuit := range circuits {
		open[circuit.Provider] = time.Now().Add(circuit.OpenFor)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
	return circuits, nil
}

// barred returns for how long the provider must not be called; 0: the caller may. One that
// cannot be asked about is called: the breaker spares calls, it guards nothing.
func (c *Circuits) barred(ctx context.Context, provider string) time.Duration {
	until, open := c.until(provider)
	if !open {
		return 0
	}
	if left := time.Until(until); left > 0 {
		return left
	}
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	left, err := c.Store.TryProviderIfDue(ctx, provider, tryFor)
	if err != nil {
		c.Logger.Warn("cannot read the circuit; the provider is called", "provider", provider, "error", err)
		return 0
	}
	if left > 0 {
		c.learn(provider, left)
	} else {
		c.try(provider)
	}
	return left
}

func (c *Circuits) try(provider string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trying[provider] = true
}

func (c *Circuits) until(provider string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, open := c.open[provider]
	return until, open
}

// learn keeps for how long the circuit is open, and returns whether this worker did not know
// that it is.
func (c *Circuits) learn(provider string, openFor time.Duration) (isNews bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isNews = c.known(provider) != circuitIsOpen
	c.open[provider] = time.Now().Add(openFor)
	return isNews
}

// heard counts what became of a call. An attempt whose outcome is recorded waits for
// Postgres here a moment at most.
func (c *Circuits) heard(ctx context.Context, provider string, a onejob.Attempt) {
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	switch {
	case a.State == onejob.AttemptCancelled || slices.Contains(saysNothing, a.Reason):
	case a.State == onejob.AttemptUnknown || a.State == onejob.AttemptFailed && a.Retryable:
		c.unserved(ctx, provider, a.Reason)
	case a.State.Final():
		c.served(ctx, provider)
	}
}

// saysNothing are the reasons that are no word on the provider.
var saysNothing = []onejob.Reason{
	onejob.ReasonNeverStarted, onejob.ReasonUnknownProvider, onejob.ReasonNotCertified, onejob.ReasonProviderSilent, onejob.ReasonCircuitOpen,
	onejob.ReasonResolved, onejob.ReasonInProgress, onejob.ReasonAwaitingAnswer, onejob.ReasonListenEnded,
	onejob.ReasonWorkerLost, onejob.ReasonWorkerShutdown, onejob.ReasonNotFound,
}

func (c *Circuits) unserved(ctx context.Context, provider string, reason onejob.Reason) {
	failed, known := c.count(provider)
	if c.Failures == 0 || known == circuitIsOpen { // the latter of a call that was under way when it opened
		return
	}
	why := fmt.Sprintf("%d calls in a row were not served, the last one: %s", failed, reason)
	var openFor time.Duration
	var err error
	switch {
	case known == circuitWasOpen:
		openFor, err = c.Store.ReopenCircuitIfDue(ctx, provider, why, c.OpenFor, longestOpen)
	case failed >= c.Failures:
		openFor, err = c.Store.OpenCircuitUnlessThere(ctx, provider, why, c.OpenFor)
	}
	if err != nil {
		c.Logger.Warn("cannot open the circuit", "provider", provider, "error", err)
	}
	if openFor <= 0 {
		return
	}
	if isNews := c.learn(provider, openFor); isNews || known == circuitWasOpen {
		c.Logger.Warn("circuit open: the provider is not called for now", "provider", provider, "for", openFor, "reason", why)
	}
}

// knownCircuit is what this worker knows of a circuit.
type knownCircuit int

const (
	circuitIsClosed knownCircuit = iota
	circuitIsOpen
	circuitWasOpen // its time has passed: the provider is tried
)

// known returns what this worker knows of the circuit. The caller holds the lock.
func (c *Circuits) known(provider string) knownCircuit {
	until, open := c.open[provider]
	switch {
	case c.trying[provider]: // whom that keeps from trying has learned that it is open
		return circuitWasOpen
	case !open:
		return circuitIsClosed
	case time.Now().Before(until):
		return circuitIsOpen
	}
	return circuitWasOpen
}

// count counts a call that was not served.
func (c *Circuits) count(provider string) (failed int, known knownCircuit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[provider]++
	known = c.known(provider)
	delete(c.trying, provider)
	return c.failed[provider], known
}

func (c *Circuits) served(ctx context.Context, provider string) {
	c.mu.Lock()
	delete(c.failed, provider)
	delete(c.trying, provider)
	_, open := c.open[provider]
	delete(c.open, provider)
	c.mu.Unlock()
	if !open {
		return
	}
	if err := c.Store.CloseCircuitUnlessPaused(ctx, provider); err != nil {
		c.Logger.Warn("cannot close the circuit", "provider", provider, "error", err)
	}
}

// notCalled is the answer for a provider whose circuit is open.
func notCalled(openFor time.Duration) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonCircuitOpen, Retryable: true, RetryAfter: openFor,
		Detail: "not called: the provider's circuit is open, see 'onejob provider status'"}
}
