package simulator

import (
	"errors"
	"testing"
	"testing/synctest"
)

func TestOldestCallIsForgottenBeyondTheMost(t *testing.T) {
	t.Parallel()
	known := newRuns(2)
	for attempt := range 3 {
		known.add(t.Context(), call{format: plain{}, job: "j", attempt: attempt})
	}
	for attempt, want := range []bool{false, true, true} {
		if found := known.find(byAttempt("", "j", attempt)) != nil; found != want {
			t.Errorf("attempt %d is found: %t", attempt, found)
		}
	}
	if len(known.byName) != 4 {
		t.Errorf("%d names are kept", len(known.byName))
	}
}

func TestErrandsAreBounded(t *testing.T) {
	t.Parallel()
	under, done := &errands{most: 1}, make(chan struct{})
	ended, err := under.start(func() { <-done })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := under.start(func() {}); !errors.Is(err, errTooManyErrands) {
		t.Errorf("one too many: %v", err)
	}
	close(done)
	<-ended
	if _, err := under.start(func() {}); err != nil {
		t.Errorf("after its end: %v", err)
	}
	under.end()
	if _, err := under.start(func() {}); !errors.Is(err, errReset) {
		t.Errorf("after the era: %v", err)
	}
}

func TestErrandsAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		under, done, waited := &errands{most: 1}, make(chan struct{}), make(chan struct{})
		if _, err := under.start(func() { <-done }); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(waited); under.end() }()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("nobody waits for the errand")
		default:
		}
		close(done)
		<-waited
	})
}

func TestDeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	tried := &deliveries{most: 2, board: newBoard(t.Context().Done())}
	for _, id := range []string{"a", "b", "c"} {
		tried.add(&run{call: call{job: "j"}}, Delivery{ID: id})
	}
	if got := tried.of(Subject{Job: "j"}); len(got) != 2 || got[0].ID != "b" || got[1].ID != "c" {
		t.Errorf("%+v", got)
	}
}
