package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// awaited counts what runners apply, and tells when it is enough.
type awaited struct {
	left   atomic.Int64
	enough chan struct{}
}

func newAwaited() *awaited { return &awaited{enough: make(chan struct{}, 1)} }

// MessagesApplied implements [messages.Observer].
func (a *awaited) MessagesApplied(_ string, applied messages.Applied) {
	if applied.Done > 0 && a.left.Add(-int64(applied.Done)) == 0 {
		a.enough <- struct{}{}
	}
}

// time returns how long it takes from begin until n messages are applied.
func (a *awaited) time(ctx context.Context, n int, begin func() error) (time.Duration, error) {
	a.left.Store(int64(n))
	began := time.Now()
	if err := begin(); err != nil {
		return 0, err
	}
	select {
	case <-a.enough:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// startRunners runs them until stop is called, which waits for their end.
func (m *messageBench) startRunners(ctx context.Context, seen messages.Observer, consumers []messages.Consumer, stores ...*postgres.Store) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, store := range stores {
		running.Go(func() {
			_ = messages.Runner{Store: store, Consumers: consumers, Observer: seen, Logger: slog.Default()}.Run(ctx) // the consumers are in order
		})
	}
	return func() { cancel(); running.Wait() }
}

const (
	lagRate    = 200 // messages a second
	lagSeconds = 15
)

// lag writes messages at a steady rate, each in a transaction of its own, for two runners of
// all summaries.
func (m *messageBench) lag(ctx context.Context) (l LagReport, err error) {
	for _, c := range summaryConsumers() {
		if err := m.store.Subscribe(ctx, c.Group, c.Topics, messages.FromNow); err != nil {
			return l, err
		}
	}
	stop := m.startRunners(ctx, nil, summaryConsumers(), m.store, m.store)
	defer stop()
	first, err := m.book(ctx, lagRate*lagSeconds)
	if err != nil {
		return l, err
	}
	ticker := time.NewTicker(time.Second / lagRate)
	defer ticker.Stop()
	began := time.Now()
	for e := first; e <= m.last; e++ {
		if err := m.tell(ctx, e, e); err != nil {
			return l, err
		}
		<-ticker.C
	}
	l.Rate = int(float64(lagRate*lagSeconds) / time.Since(began).Seconds())
	if err := m.awaitNothingPending(ctx); err != nil {
		return l, err
	}
	err = m.conn.QueryRow(ctx, `
		SELECT count(*), 1000 * percentile_cont(0.5) WITHIN GROUP (ORDER BY lag), 1000 * percentile_cont(0.99) WITHIN GROUP (ORDER BY lag)
		FROM (SELECT extract(epoch FROM i.done_at - m.created_at)::float8 AS lag FROM inbox i JOIN outbox m USING (message_key) JOIN ledger l ON l.source = message_key
		      WHERE l.attempt_id >= $1) x`, first).Scan(&l.Count, &l.P50, &l.P99)
	progress("lag: %.0f ms at the median, %.0f ms at p99", l.P50, l.P99)
	return l, err
}

func (m *messageBench) awaitNothingPending(ctx context.Context) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		var pending bool
		if err := m.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM inbox WHERE state = 'pending')`).Scan(&pending); err != nil || !pending {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// backlog drains n messages of one group by two runners, each with a pool of its own.
func (m *messageBench) backlog(ctx context.Context, n int) (b BacklogReport, err error) {
	if _, err := m.conn.Exec(ctx, `DELETE FROM subscriptions WHERE consumer_group <> 'usage_daily'`); err != nil {
		return b, err
	}
	progress("writing %d messages", n)
	if err := m.bookAndTell(ctx, n); err != nil {
		return b, err
	}
	second, err := postgres.Open(ctx, m.conn.Config().ConnString())
	if err != nil {
		return b, err
	}
	defer second.Close()
	runtime.GC()
	heap := watchHeap()
	seen, stop := newAwaited(), func() {}
	took, err := seen.time(ctx, n, func() error {
		stop = m.startRunners(ctx, seen, summaryConsumers()[:1], m.store, second)
		return nil
	})
	stop()
	b = BacklogReport{Messages: n, Seconds: took.Seconds(), HeapMB: heap(), RSSMB: mostRSS()}
	b.PerSecond = float64(n) / b.Seconds
	progress("backlog: %.0f messages/s", b.PerSecond)
	if err == nil {
		err = m.conn.QueryRow(ctx, `
			SELECT (SELECT sum(cost) FROM usage_daily) = (SELECT sum(l.amount) FROM ledger l JOIN inbox i ON i.message_key = l.source AND i.consumer_group = 'usage_daily')
			   AND NOT EXISTS (SELECT FROM inbox WHERE tries <> 1 OR duplicates > 0)`).Scan(&b.Exact)
	}
	return b, err
}

// watchHeap looks at the heap until the function that it returns is called, which returns
// the most that it saw, in MB.
func watchHeap() (most func() float64) {
	done, seen := make(chan struct{}), make(chan uint64)
	go func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		var most uint64
		for {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			most = max(most, stats.HeapAlloc)
			select {
			case <-done:
				seen <- most
				return
			case <-ticker.C:
			}
		}
	}()
	return func() float64 { close(done); return float64(<-seen) / 1e6 }
}

// mostRSS is the most memory that this process ever had, in MB; 0 where that is not told.
func mostRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kB float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kB); n == 1 {
			return kB / 1e3
		}
	}
	return 0
}
