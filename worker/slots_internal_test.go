package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// reserve takes a place, or reports that there is none.
func reserve(s *attemptSlots) bool { return s.TryReserveSlot(nil) != nil }

func TestSilentAttemptGivesItsPlaceToOneThatWorks(t *testing.T) {
	t.Parallel()
	s := newAttemptSlots(1, 10)
	if !reserve(s) || reserve(s) {
		t.Fatal("one place is not one place")
	}
	end := s.Begin("silent")
	if !reserve(s) {
		t.Error("the place of an attempt that only listens is kept from one that would work")
	}
	if reserve(s) {
		t.Error("one silence made room for two")
	}
	end()
	end() // a second time it changes nothing
	s.ReleaseSlot(nil)
	if reserve(s) {
		t.Error("the listener's end made room a second time")
	}
	s.ReleaseSlot(nil)
	if !reserve(s) {
		t.Error("a place that came free is kept")
	}
}

func TestSilenceMakesRoomForOneThatWaits(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*attemptSlots){
		"by silence":    func(s *attemptSlots) { s.Begin("silent") },
		"by a release":  func(s *attemptSlots) { s.ReleaseSlot(nil) },
		"both together": func(s *attemptSlots) { s.Begin("silent"); s.ReleaseSlot(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newAttemptSlots(1, 10)
				reserve(s)
				got := make(chan error, 1)
				go func() {
					_, err := s.ReserveSlot(t.Context(), nil)
					got <- err
				}()
				synctest.Wait()
				free(s)
				synctest.Wait()
				select {
				case err := <-got:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("it still waits")
				}
			})
		})
	}
}

func TestWaitForAPlaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newAttemptSlots(1, 10)
	reserve(s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.ReserveSlot(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSilenceOfOneProviderFillsItsOwnShareOnly(t *testing.T) {
	t.Parallel()
	s := newAttemptSlots(10, 2)
	s.Begin("silent")
	end := s.Begin("silent")
	if !s.Full("silent") || s.Full("other") {
		t.Errorf("full: silent %v, other %v", s.Full("silent"), s.Full("other"))
	}
	if end(); s.Full("silent") {
		t.Error("a listener that ended still counts")
	}
}
