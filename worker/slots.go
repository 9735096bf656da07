package worker

import (
	"context"
	"sync"

	"go.temporal.io/sdk/worker"

	"github.com/onejob/onejob/activities"
)

// attemptSlots are the places of a worker's activities. An attempt whose provider has
// fallen silent gives its place back while it goes on listening, so that silence keeps
// nobody waiting who works. What listens is bounded too, for each provider.
type attemptSlots struct {
	working          int // at once
	listeningPerName int // at once, of one provider

	mu        sync.Mutex
	reserved  int            // places that Temporal's worker holds, for activities and for polls
	listening map[string]int // of these, the attempts that only listen, by provider
	searches  int            // of these, the searches for outcomes
	quiet     int            // sum of listening, and searches
	freed     chan struct{}  // closed when a place comes free
}

var (
	_ worker.SlotSupplier  = (*attemptSlots)(nil)
	_ activities.Listening = (*attemptSlots)(nil)
)

// attemptTuner is a tuner whose activities take the slots.
type attemptTuner struct {
	worker.WorkerTuner
	slots *attemptSlots
}

// GetActivityTaskSlotSupplier implements [worker.WorkerTuner].
func (t attemptTuner) GetActivityTaskSlotSupplier() worker.SlotSupplier { return t.slots }

func newAttemptSlots(working, listeningPerName int) *attemptSlots {
	return &attemptSlots{working: working, listeningPerName: listeningPerName, listening: map[string]int{}, freed: make(chan struct{})}
}

// ReserveSlot implements [worker.SlotSupplier]: it waits for a place.
func (s *attemptSlots) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		permit, freed := s.tryReserve()
		if permit != nil {
			return permit, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-freed:
		}
	}
}

// TryReserveSlot implements [worker.SlotSupplier].
func (s *attemptSlots) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	permit, _ := s.tryReserve()
	return permit
}

func (s *attemptSlots) tryReserve() (*worker.SlotPermit, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved-s.quiet >= s.working {
		return nil, s.freed
	}
	s.reserved++
	return &worker.SlotPermit{}, nil
}

// MarkSlotUsed implements [worker.SlotSupplier].
func (s *attemptSlots) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot implements [worker.SlotSupplier].
func (s *attemptSlots) ReleaseSlot(worker.SlotReleaseInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved--
	s.wake()
}

// MaxSlots implements [worker.SlotSupplier]: those that listen come on top, so there is
// no number to give.
func (s *attemptSlots) MaxSlots() int { return 0 }

// counts adds to counts the attempts that listen, by provider.
func (s *attemptSlots) counts(counts map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for provider, n := range s.listening {
		counts[provider] += n
	}
}

// Full implements [activities.Listening].
func (s *attemptSlots) Full(provider string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listening[provider] >= s.listeningPerName
}

// Begin implements [activities.Listening].
func (s *attemptSlots) Begin(provider string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening[provider]++
	s.quiet++
	s.wake()
	return sync.OnceFunc(func() { s.endListening(provider) })
}

// mostSearches bounds the searches for outcomes that one worker has at once.
const mostSearches = 10_000

// BeginSearch implements [activities.Listening].
func (s *attemptSlots) BeginSearch() (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.searches >= mostSearches {
		return nil, false
	}
	s.searches++
	s.quiet++
	s.wake()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.searches--
		s.quiet--
	}), true
}

// endListening takes the place back. For the moment until the activity has ended, one
// more than allowed may work.
func (s *attemptSlots) endListening(provider string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet--
	if s.listening[provider]--; s.listening[provider] == 0 {
		delete(s.listening, provider)
	}
}

// wake tells those who wait for a place to look again.
func (s *attemptSlots) wake() {
	close(s.freed)
	s.freed = make(chan struct{})
}
