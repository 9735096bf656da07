package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

var discard = slog.New(slog.DiscardHandler)

func TestPositionTellsEachChangeOnce(t *testing.T) {
	t.Parallel()
	attempt := func(number int, state onejob.AttemptState) onejob.Attempt {
		return onejob.Attempt{Number: number, State: state}
	}
	won, discarded := attempt(2, onejob.AttemptSucceeded), attempt(1, onejob.AttemptCancelled)
	won.Decided, discarded.Discarded = true, true
	life := []onejob.View{
		{Status: onejob.StatusAccepted},
		{Status: onejob.StatusRunning, Attempts: []onejob.Attempt{attempt(1, onejob.AttemptStarting)}},
		{Status: onejob.StatusRunning, Attempts: []onejob.Attempt{attempt(1, onejob.AttemptStarting)}},
		{Status: onejob.StatusUnknown, Attempts: []onejob.Attempt{attempt(1, onejob.AttemptUnknown)}},
		{Status: onejob.StatusRunning, Attempts: []onejob.Attempt{attempt(1, onejob.AttemptCancelled), attempt(2, onejob.AttemptStarting)}},
		{Status: onejob.StatusRunning, Attempts: []onejob.Attempt{attempt(1, onejob.AttemptCancelled), attempt(2, onejob.AttemptSucceeded)}},
		{Status: onejob.StatusSucceeded, Version: 1, Attempts: []onejob.Attempt{attempt(1, onejob.AttemptCancelled), won}},
		{Status: onejob.StatusSucceeded, Version: 1, Attempts: []onejob.Attempt{discarded, won}},
	}
	want := []string{"0-accepted-", "0-accepted-s 0-running-s", "", "0-running-u 0-unknown-u", "0-unknown-c 0-unknown-cs 0-running-cs", "0-running-co", "0-running-cw 1-succeeded-cw", "1-succeeded-Cw"}
	at := position{}
	for i, v := range life {
		events := at.since(v)
		var ids []string
		for k, e := range events {
			ids = append(ids, e.at.String())
			read, err := parsePosition(e.at.String())
			if err != nil || read != e.at {
				t.Errorf("%s is read as %+v, %v", e.at, read, err)
			}
			if rest := read.since(v); len(rest) != len(events)-k-1 {
				t.Errorf("behind %s %d events are left of %d", e.at, len(rest), len(events))
			}
			at = e.at
		}
		if got := strings.Join(ids, " "); got != want[i] {
			t.Errorf("step %d tells %q, want %q", i, got, want[i])
		}
	}
}

// TestEveryStateOfAnAttemptHasALetter: one without would never be told.
func TestEveryStateOfAnAttemptHasALetter(t *testing.T) {
	t.Parallel()
	seen := map[byte]onejob.AttemptState{}
	for _, state := range onejob.AttemptStates() {
		letter := letterOf(onejob.Attempt{State: state})
		if other, twice := seen[letter]; letter == '?' || letter == untold || twice {
			t.Errorf("%s has the letter %c, as %s", state, letter, other)
		}
		seen[letter] = state
	}
}

func TestRatesForgetWhoIsAsGoodAsNew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newRates(Rate{PerSecond: 1, Burst: 2})
	r.most = 10
	for i := range 1000 {
		r.take(fmt.Sprint(i), now)
		if len(r.of) > r.most {
			t.Fatalf("%d rates are remembered", len(r.of))
		}
	}
	busy := newRates(Rate{PerSecond: 1, Burst: 2})
	busy.most = 10
	for range 2 {
		busy.take("busy", now)
	}
	for i := range 9 {
		busy.take(fmt.Sprint(i), now.Add(-time.Hour))
	}
	if _, ok := busy.take("another", now); !ok {
		t.Error("another one has no rate")
	}
	if wait, ok := busy.take("busy", now); ok || wait <= 0 || wait > time.Second {
		t.Errorf("the busy one was forgotten, or waits %v", wait)
	}
}

// marks is a marker that a test controls.
type marks struct {
	mark  func(ids []string) ([]postgres.Mark, error)
	asked atomic.Int32
}

func (m *marks) MarkJobs(_ context.Context, ids []string) ([]postgres.Mark, error) {
	m.asked.Add(1)
	return m.mark(ids)
}

func (m *marks) Listen(context.Context, func(string)) error { return messages.ErrCannotListen }

// TestWatcherAsksOnceForAll who wait, and goes on after Postgres was away.
func TestWatcherAsksOnceForAll(t *testing.T) {
	t.Parallel()
	var version, failures atomic.Int32
	failures.Store(3)
	most := 0
	m := &marks{mark: func(ids []string) (marks []postgres.Mark, err error) {
		if failures.Add(-1) >= 0 {
			return nil, errors.New("away")
		}
		most = max(most, len(ids))
		for _, id := range ids {
			marks = append(marks, postgres.Mark{JobID: id, Version: int(version.Load())})
		}
		return marks, nil
	}}
	w := newWatcher(m, time.Millisecond, 1000, discard)
	var watches []*watch
	for i := range 900 {
		one, err := w.watch(fmt.Sprint(i % 300))
		if err != nil {
			t.Fatal(err)
		}
		watches = append(watches, one)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.run(ctx) }()
	for range 2 { // as it is, and then as it has become
		for i, one := range watches {
			select {
			case <-one.changed:
			case <-time.After(10 * time.Second):
				t.Fatalf("watch %d was told nothing", i)
			}
		}
		version.Add(1)
	}
	cancel()
	<-ended
	if most != 300 {
		t.Errorf("it asked for %d jobs at once", most)
	}
	for _, one := range watches {
		one.end()
		one.end()
	}
	if w.watches != 0 || len(w.jobs) != 0 {
		t.Errorf("%d watches of %d jobs are left", w.watches, len(w.jobs))
	}
}

// TestPanicIsAnsweredAndAnAnswerThatHasBegunIsCut, so that nobody takes it for a whole one.
func TestPanicIsAnsweredAndAnAnswerThatHasBegunIsCut(t *testing.T) {
	t.Parallel()
	d := New(Options{Temporal: func(context.Context) error { return nil }, Logger: discard, Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, strings.Repeat("half ", 10_000))
		}
		panic("a defect")
	})})
	server := httptest.NewServer(d.Handler())
	defer server.Close()
	response, err := http.Get(server.URL + "/page")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != 500 || !strings.Contains(string(body), internal.URI()) || strings.Contains(string(body), "defect\"") {
		t.Errorf("it is answered %d %s, %v", response.StatusCode, body, err)
	}
	response, err = http.Get(server.URL + "/begun")
	if err == nil {
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
	}
	if err == nil {
		t.Error("the half of an answer is taken for a whole one")
	}
}

// TestCallbacksAreHeardWithoutAToken: their signature is checked by their own handler.
func TestCallbacksAreHeardWithoutAToken(t *testing.T) {
	t.Parallel()
	d := New(Options{Temporal: func(context.Context) error { return nil }, Logger: discard, Callbacks: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})})
	for path, want := range map[string]int{"/v1/callbacks/p/j/1/t": http.StatusTeapot, "/v1/callbacks": http.StatusNotFound, "/v1/nothing": http.StatusNotFound} {
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != want {
			t.Errorf("%s got %d", path, w.Code)
		}
	}
}

// TestBodiesTogetherAreBounded: many long ones at once are turned away, not kept.
func TestBodiesTogetherAreBounded(t *testing.T) {
	t.Parallel()
	d := &Door{bodies: &memory{left: 3 * freeBodyBytes}}
	if text, err := d.read(strings.NewReader(strings.Repeat("a", 2*freeBodyBytes+1))); err != nil || len(text) != 2*freeBodyBytes+1 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := d.read(strings.NewReader(strings.Repeat("a", 4*freeBodyBytes+1))); !errors.Is(err, errNoMemory) {
		t.Errorf("got %v", err)
	}
	if d.bodies.left != 3*freeBodyBytes {
		t.Errorf("%d bytes are left", d.bodies.left)
	}
}

// TestStrangersAreRememberedInBounds: addresses and tokens, and who asks often is not forgotten for
// those who asked once.
func TestStrangersAreRememberedInBounds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newStrangers(Rate{PerSecond: 1, Burst: 2})
	s.most = 100
	address := func(n int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 32)
	}
	for i := range 10_000 {
		s.take(address(i), now)
		if len(s.of) > s.most {
			t.Fatalf("%d addresses are remembered", len(s.of))
		}
	}
	busy := newStrangers(Rate{PerSecond: 1, Burst: 2})
	busy.most = 10
	for range 2 {
		busy.take(address(0), now)
	}
	for i := range 9 {
		busy.take(address(i+1), now.Add(-time.Hour))
	}
	busy.take(address(10), now)
	if wait, ok := busy.take(address(0), now); ok || wait <= 0 || wait > time.Second {
		t.Errorf("the busy one was forgotten, or waits %v", wait)
	}
	if _, ok := busy.take(address(0), now.Add(time.Second)); !ok {
		t.Error("after its wait it is refused")
	}
	often := sha256.Sum256([]byte("often"))
	s.welcome(often, address(0))
	for i := range 3 * mostKnown {
		s.welcome(sha256.Sum256(fmt.Append(nil, i)), address(i))
		if n := len(s.known) + len(s.old); n > mostKnown {
			t.Fatalf("%d tokens are known", n)
		}
		if i%1000 == 0 && !s.knows(often) {
			t.Fatal("a token that is used is forgotten")
		}
	}
	if s.knows(sha256.Sum256(fmt.Append(nil, 0))) {
		t.Error("a token that was used once is known for ever")
	}
	if s.forget(often); s.knows(often) {
		t.Error("a forgotten token is known")
	}
}

func TestAddressOfIPv6IsItsNetwork(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1/32", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[::ffff:192.0.2.1]:5": "192.0.2.1/32", "[fe80::1%eth0]:5": "fe80::/64", "pipe": "invalid Prefix",
	} {
		if got := addressOf(&http.Request{RemoteAddr: remote}, nil); got.String() != want {
			t.Errorf("%s is %s, want %s", remote, got, want)
		}
	}
}
