package messages_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres/pgtest"
)

func TestWorkersShareMessagesAndApplyEachOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tell(t, 4000)
	var counted tally
	for range 3 {
		start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{counting()}, Observer: &counted})
	}
	for range 10 {
		r.tell(t, 100)
	}
	r.await(t, 5000, done)
	r.mustHaveAppliedOnce(t, 5000)
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE tries <> 1 OR duplicates <> 0`); n != 0 {
		t.Errorf("%d messages were handed out more than once", n)
	}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if counted.all.Done != 5000 || counted.all.Failed != 0 || counted.all.Duplicates != 0 {
		t.Errorf("%+v", counted.all)
	}
}

// watched counts how often each group looks for messages.
type watched struct {
	messages.Store
	mu    *sync.Mutex
	looks map[string]int
}

func (w watched) TakeBatch(ctx context.Context, c messages.Consumer) (messages.Taken, error) {
	w.mu.Lock()
	w.looks[c.Group]++
	w.mu.Unlock()
	return w.Store.TakeBatch(ctx, c)
}

const listening = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN onejob_messages' AND state = 'idle'`

func TestNotificationWakesASleepingConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := messages.Consumer{Group: "other", Topics: []string{"thing.else"}, Apply: addEffects}
	store := watched{r.store, new(sync.Mutex), map[string]int{}}
	start(t, messages.Runner{Store: store, Consumers: []messages.Consumer{counting(), other}, Poll: time.Hour})
	r.await(t, 1, listening)
	const times = 5
	for n := range times {
		r.tell(t, 1)
		r.await(t, n+1, done)
	}
	store.mu.Lock()
	defer store.mu.Unlock()
	const first = 2 // when it starts, and when it has begun to listen
	if mine, others := store.looks["counting"], store.looks["other"]; mine > first+times || others > first {
		t.Errorf("%d looks for %d messages, and %d of a group that none was for", mine, times, others)
	}
}

func TestMessagesThatFollowOneAnotherGather(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	hasty := messages.Consumer{Group: "hasty", Topics: []string{topic}, Apply: addEffects}
	start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{counting()}, Poll: time.Hour, Gather: time.Hour})
	start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{hasty}, Gather: time.Millisecond})
	r.await(t, 2, listening)
	r.tell(t, 1)
	r.await(t, 2, done)
	for n := range 3 {
		r.tell(t, 1)
		r.await(t, n+2, done+` AND consumer_group = 'hasty'`)
	}
	if n := r.count(t, done+` AND consumer_group = 'counting'`); n != 1 {
		t.Errorf("%d are done within the time in which messages gather", n)
	}
}

func TestConsumerListensAgainAfterItsConnectionIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := pgproxy.Start(t, r.url)
	start(t, messages.Runner{Store: pgtest.Open(t, proxy.URL()), Consumers: []messages.Consumer{counting()}, Poll: time.Hour})
	r.await(t, 1, listening)
	r.tell(t, 1)
	r.await(t, 1, done)
	proxy.CutAll()
	r.await(t, 1, listening)
	r.tell(t, 1)
	r.await(t, 2, done)
}

// deaf is a store whose notifications do not come through.
type deaf struct{ messages.Store }

func (deaf) Listen(context.Context, func(string)) error { return messages.ErrCannotListen }

func TestMessagesAreFoundWithoutNotifications(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start(t, messages.Runner{Store: deaf{r.store}, Consumers: []messages.Consumer{counting()}, Poll: 50 * time.Millisecond})
	for n := range 3 {
		r.tell(t, 1)
		r.await(t, n+1, done)
	}
}

func TestOutageIsToldOnceAndWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := pgproxy.Start(t, r.url)
	var log lines
	start(t, messages.Runner{
		Store: pgtest.Open(t, proxy.URL()), Consumers: []messages.Consumer{counting()}, Poll: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	r.tell(t, 10)
	r.await(t, 10, done)
	proxy.Refuse()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); proxy.Refusals() < 8; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("the database is not asked again")
		}
	}
	r.tell(t, 10)
	proxy.Resume()
	r.await(t, 20, done)
	r.mustHaveAppliedOnce(t, 20)
	if n := strings.Count(log.String(), "level=WARN"); n > 2 { // one loop, and who listens
		t.Errorf("the outage was told %d times:\n%s", n, log.String())
	}
}

// lines may be written to by several at once.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestBatchUnderWayIsFinishedWhenTheRunnerStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began, finish := make(chan struct{}), make(chan struct{})
	c := counting()
	c.Batch = 1
	c.Apply = func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
		began <- struct{}{}
		<-finish
		return addEffects(ctx, tx, batch)
	}
	r.tell(t, 2)
	stop := start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{c}, Drain: patience})
	<-began
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(finish)
	<-stopped
	if n := r.count(t, done); n != 1 {
		t.Errorf("%d done", n)
	}
	r.mustHaveAppliedOnce(t, 1)
}

func TestHungBatchIsLeftAfterTheDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began := make(chan struct{})
	c := counting()
	c.Apply = func(ctx context.Context, _ messages.Tx, _ []messages.Message) error {
		close(began)
		<-ctx.Done()
		return ctx.Err()
	}
	r.tell(t, 1)
	c.Lease = time.Hour // it is not what ends the batch
	stop := start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{c}, Drain: 50 * time.Millisecond})
	<-began
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("the runner waits for a batch that hangs")
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE state = 'pending' AND tries = 1`); n != 1 {
		t.Errorf("%d are left to another worker, with their try counted", n)
	}
}

// Not parallel: it counts the goroutines of the whole process.
func TestStoppedRunnerLeavesNoGoroutine(t *testing.T) {
	r := newRig(t)
	before := goleak.IgnoreCurrent()
	c := counting()
	c.Loops = 3
	stop := start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{c}})
	r.tell(t, 10)
	r.await(t, 10, done)
	stop()
	r.store.Close()
	r.hand.Close()
	goleak.VerifyNone(t, before)
}

func TestConsumerThatCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	apply := func(context.Context, messages.Tx, []messages.Message) error { return nil }
	for name, consumers := range map[string][]messages.Consumer{
		"no group":      {{Topics: []string{topic}, Apply: apply}},
		"no topic":      {{Group: "g", Apply: apply}},
		"a blank group": {{Group: "  ", Topics: []string{topic}, Apply: apply}},
		"a blank topic": {{Group: "g", Topics: []string{topic, "\t"}, Apply: apply}},
		"a long group":  {{Group: strings.Repeat("g", 101), Topics: []string{topic}, Apply: apply}},
		"a long topic":  {{Group: "g", Topics: []string{strings.Repeat("t", 101)}, Apply: apply}},
		"no effect":     {{Group: "g", Topics: []string{topic}}},
		"bad numbers":   {{Group: "g", Topics: []string{topic}, Apply: apply, Batch: -1}},
		"twice a group": {counting(), counting()},
	} {
		if err := messages.Check(consumers); !errors.Is(err, onejob.ErrMisconfigured) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// refusing is a store that does not take the consumer's subscription.
type refusing struct{ messages.Store }

func (refusing) Subscribe(context.Context, string, []string, messages.From) error {
	return onejob.Errorf(onejob.CodeInternal, "it violates a constraint")
}

func (refusing) Listen(ctx context.Context, _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestRefusedSubscriptionEndsTheRunner(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	runner := messages.Runner{Store: refusing{}, Consumers: []messages.Consumer{counting()}, Logger: slog.New(slog.DiscardHandler)}
	if err := runner.Run(ctx); !errors.Is(err, onejob.ErrInternal) || !strings.Contains(err.Error(), "counting") {
		t.Error(err)
	}
}

func TestBackoffDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 12: 2048 * time.Second, 13: time.Hour, 1000: time.Hour} {
		if got := messages.Backoff(tries); got != want {
			t.Errorf("after %d tries: %s, not %s", tries, got, want)
		}
	}
}
