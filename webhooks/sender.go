package webhooks

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/onejob/onejob/postgres"
)

// Options are what a sender works with. Store must be set.
type Options struct {
	Store *postgres.Store
	Policy
	Every       time.Duration // default 1 s; how often it looks for what is due
	AtOnce      int           // default 64; tries in flight
	PerReceiver int           // default 4; of these to one endpoint, or to the callback_urls of one host
	Logger      *slog.Logger  // default [slog.Default]
}

// Sender sends what is due. Any number of them share the work.
type Sender struct {
	Options
	client *http.Client

	mu      sync.Mutex
	flying  map[string]int // tries in flight, by receiver
	flights sync.WaitGroup
	landed  chan struct{} // a try ended
}

// NewSender returns a sender. It does nothing before [Sender.Run].
func NewSender(o Options) *Sender {
	o.Every = cmp.Or(o.Every, time.Second)
	o.AtOnce = cmp.Or(o.AtOnce, 64)
	o.PerReceiver = cmp.Or(o.PerReceiver, 4)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	return &Sender{Options: o, client: o.Policy.client(), flying: map[string]int{}, landed: make(chan struct{}, 1)}
}

// Run sends until ctx ends, and waits for the tries in flight.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	defer s.client.CloseIdleConnections()
	defer s.flights.Wait()
	failures := 0 // in a row
	for ctx.Err() == nil {
		started, err := s.startDue(ctx)
		if ctx.Err() == nil {
			failures = s.tell(err, failures)
		}
		if started > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-s.landed:
		}
	}
}

// tell tells once that the database does not answer and once that it does again. It returns
// how many looks in a row have failed.
func (s *Sender) tell(err error, failures int) int {
	switch {
	case err == nil && failures > 0:
		s.Logger.Info("webhooks are looked for again", "failures", failures)
	case err != nil && failures == 0:
		s.Logger.Warn("cannot look for webhooks; it is tried again and again", "error", err)
	}
	if err == nil {
		return 0
	}
	return failures + 1
}

// SendDue makes one try of what is due, as much as may be in flight at once, and waits for it.
// It returns how many there were.
func (s *Sender) SendDue(ctx context.Context) (int, error) {
	started, err := s.startDue(ctx)
	s.flights.Wait()
	return started, err
}

// recordingTime is what writing an outcome gets.
const recordingTime = 10 * time.Second

// startDue starts the tries that are due and have room.
func (s *Sender) startDue(ctx context.Context) (int, error) {
	flying, room := s.room()
	if room == 0 {
		return 0, nil
	}
	due, err := s.Store.TakeDueDeliveries(ctx, postgres.Taking{
		Most: room, PerReceiver: s.PerReceiver, InFlight: flying, MostTries: mostTries,
		Lease: s.Timeout + 2*recordingTime, // longer than any try that still lives
	})
	for _, d := range due {
		s.fly(d.Receiver, +1)
		s.flights.Go(func() {
			defer s.land(d.Receiver)
			s.try(context.WithoutCancel(ctx), d) // a try that began has its own end
		})
	}
	return len(due), err
}

// room returns what is in flight, and how much more may be.
func (s *Sender) room() (flying map[string]int, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	flying, room = make(map[string]int, len(s.flying)), s.AtOnce
	for receiver, n := range s.flying {
		flying[receiver] = n
		room -= n
	}
	return flying, room
}

func (s *Sender) fly(receiver string, change int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[receiver] += change; s.flying[receiver] == 0 {
		delete(s.flying, receiver)
	}
}

func (s *Sender) land(receiver string) {
	s.fly(receiver, -1)
	select {
	case s.landed <- struct{}{}:
	default: // one is enough to look again
	}
}

// try makes a try and records what became of it. Where that cannot be recorded the delivery
// is due again after its lease.
func (s *Sender) try(ctx context.Context, d postgres.DueDelivery) {
	a := s.deliver(ctx, d)
	ctx, cancel := context.WithTimeout(ctx, recordingTime)
	defer cancel()
	if err := s.record(ctx, d, a); err != nil {
		s.Logger.Warn("what became of a webhook is not recorded; it is sent again", "delivery", d.ID, "message", d.MessageKey, "error", err)
	}
}

func (s *Sender) record(ctx context.Context, d postgres.DueDelivery, a answer) error {
	if a.err == nil {
		return s.Store.MarkDeliveredUnlessDone(ctx, d.ID, a.status)
	}
	gone := a.status == http.StatusGone
	failure := postgres.DeliveryFailure{Status: a.status, Detail: detail(a.err), Dead: gone || d.Try >= mostTries, After: waitAfter(d.Try, a.retryAfter)}
	if failure.Dead {
		s.Logger.Warn("a webhook is given up", "delivery", d.ID, "message", d.MessageKey, "tries", d.Try, "error", failure.Detail)
	}
	if err := s.Store.MarkFailedIfLatestTry(ctx, d.ID, d.Taken, failure); err != nil || !gone || d.EndpointID == "" {
		return err
	}
	s.Logger.Warn("a webhook endpoint is gone and is disabled", "endpoint", d.EndpointID)
	_, err := s.Store.DisableEndpointIfEnabled(ctx, d.EndpointID, "it answered 410 Gone")
	return err
}
