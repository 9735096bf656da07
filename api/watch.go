package api

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// marker is what a watcher asks.
type marker interface {
	MarkJobs(ctx context.Context, ids []string) ([]postgres.Mark, error)
	Listen(ctx context.Context, wake func(group string)) error
}

// watcher tells those who wait for a job that it changed. Whoever waits costs no statement of
// its own: one look is at all the jobs that are waited for, soon after a message was written
// anywhere (the end of a job is one), and now and then.
type watcher struct {
	marker marker
	every  time.Duration
	most   int // watches at once
	logger *slog.Logger
	wake   chan struct{}

	mu      sync.Mutex
	watches int
	jobs    map[string]*watched
}

// watched is a job that somebody waits for.
type watched struct {
	mark    postgres.Mark
	waiting map[*watch]struct{}
}

// watch is one who waits.
type watch struct {
	changed chan struct{} // holds one when the job may have changed since it was last taken
	end     func()
}

// The bounds of a look.
const (
	mostMarks   = 500                   // jobs in one statement
	betweenTwo  = 20 * time.Millisecond // looks, however many messages there are
	lookTimeout = 5 * time.Second
	listenPause = 5 * time.Second // after listening failed
)

func newWatcher(m marker, every time.Duration, most int, logger *slog.Logger) *watcher {
	return &watcher{marker: m, every: every, most: most, logger: logger, wake: make(chan struct{}, 1), jobs: map[string]*watched{}}
}

// watch begins to wait for the job; whoever waits calls end. It fails while too many wait.
func (w *watcher) watch(jobID string) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watches >= w.most {
		return nil, newProblem(unavailable, "too many requests wait at this instance").with("Retry-After", "1")
	}
	w.watches++
	if w.jobs[jobID] == nil {
		w.jobs[jobID] = &watched{waiting: map[*watch]struct{}{}}
	}
	one := &watch{changed: make(chan struct{}, 1)}
	one.end = sync.OnceFunc(func() { w.end(jobID, one) })
	w.jobs[jobID].waiting[one] = struct{}{}
	return one, nil
}

// Waiting returns how many requests wait at this door for a job to change.
func (d *Door) Waiting() int {
	d.watcher.mu.Lock()
	defer d.watcher.mu.Unlock()
	return d.watcher.watches
}

func (w *watcher) end(jobID string, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches--
	delete(w.jobs[jobID].waiting, one)
	if len(w.jobs[jobID].waiting) == 0 {
		delete(w.jobs, jobID)
	}
}

// run looks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	var listening sync.WaitGroup
	listening.Go(func() { w.listen(ctx) })
	defer listening.Wait()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		w.look(ctx)
		pause(ctx, betweenTwo)
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-w.wake:
		}
	}
}

// listen wakes at every message. Behind a pooler nobody can listen: then the ticks are all.
func (w *watcher) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.marker.Listen(ctx, func(string) { signal(w.wake) })
		if errors.Is(err, messages.ErrCannotListen) {
			w.logger.Info("jobs that are waited for are polled", "every", w.every, "because", err)
			return
		}
		if ctx.Err() == nil {
			w.logger.Warn("cannot listen; jobs that are waited for are polled", "every", w.every, "error", err)
			pause(ctx, listenPause)
		}
	}
}

// look tells those who wait for a job whose mark has changed.
func (w *watcher) look(ctx context.Context) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.jobs))
	w.mu.Unlock()
	for some := range slices.Chunk(ids, mostMarks) {
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		marks, err := w.marker.MarkJobs(looking, some)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				w.logger.Warn("cannot look at the jobs that are waited for; it is tried again", "jobs", len(some), "error", err)
			}
			return
		}
		w.tell(marks)
	}
}

func (w *watcher) tell(marks []postgres.Mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, mark := range marks {
		job := w.jobs[mark.JobID]
		if job == nil || job.mark == mark {
			continue
		}
		job.mark = mark
		for one := range job.waiting {
			signal(one.changed)
		}
	}
}

// signal leaves a token in a channel that holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
