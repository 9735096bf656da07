package messages

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// trouble is a database that does not do what it is asked: told once when it begins and once
// when it is over.
type trouble struct {
	logger   *slog.Logger
	failures int
}

// over takes how a call went, and returns whether it went well.
func (t *trouble) over(err error) bool {
	switch {
	case err != nil && t.failures == 0:
		t.logger.Warn("messages wait for postgres; it is asked again and again", "error", err)
	case err == nil && t.failures > 0:
		t.logger.Info("messages wait no longer", "failures", t.failures)
	}
	if err == nil {
		t.failures = 0
		return true
	}
	t.failures++
	return false
}

// pause waits the longer the more calls failed.
func (t *trouble) pause(ctx context.Context) { pause(ctx, pauseAfter(t.failures)) }

func pauseAfter(failures int) time.Duration {
	return min(50*time.Millisecond<<min(failures, 10), 10*time.Second)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// wakes wakes loops. One that is not asleep looks once more.
type wakes struct {
	mu    sync.Mutex
	loops []wakeable
}

type wakeable struct {
	group string
	wake  chan<- struct{}
}

func (w *wakes) add(group string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	wake := make(chan struct{}, 1)
	w.loops = append(w.loops, wakeable{group, wake})
	return wake
}

// group wakes the loops of a group; empty: all loops.
func (w *wakes) group(group string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, loop := range w.loops {
		if group != "" && group != loop.group {
			continue
		}
		select {
		case loop.wake <- struct{}{}:
		default:
		}
	}
}
