package simulator

import (
	"context"
	"errors"
	"strconv"
	"sync"
)

// Counts say what happened to the requests of a subject.
type Counts struct {
	Requests   int `json:"requests"`   // received, executed or not
	Executions int `json:"executions"` // that had their effect
	LookUps    int `json:"look_ups"`   // also those that found nothing
	Cancels    int `json:"cancels"`    // asked for, agreed or not
	Deliveries int `json:"deliveries"` // tries to deliver a callback
}

// reach says whether no count is below that of least.
func (c Counts) reach(least Counts) bool {
	return c.Requests >= least.Requests && c.Executions >= least.Executions &&
		c.LookUps >= least.LookUps && c.Cancels >= least.Cancels && c.Deliveries >= least.Deliveries
}

// Totals say what happened to all requests.
type Totals struct {
	Counts
	Replayed int `json:"replayed"`  // answered from the stored reply of their key
	Repeated int `json:"repeated"`  // executions beyond the first of the same job and attempt
	InFlight int `json:"in_flight"` // requests that are held or being executed
}

// Errors of counting.
var (
	errReset = errors.New("the simulator was reset")
	errFull  = errors.New("too many jobs, attempts and keys were counted: reset the simulator")
)

// board counts, and lets others wait for a count.
type board struct {
	mu      sync.Mutex
	counts  map[string]*Counts
	totals  Totals
	changed chan struct{}   // closed at the next change
	ended   <-chan struct{} // closed by a reset
}

func newBoard(ended <-chan struct{}) *board {
	return &board{counts: map[string]*Counts{}, changed: make(chan struct{}), ended: ended}
}

// count returns the counts of a subject. The caller holds the lock.
func (b *board) count(subject string) *Counts {
	if b.counts[subject] == nil {
		b.counts[subject] = &Counts{}
	}
	return b.counts[subject]
}

// The names under which a call is counted.
func ofJob(job string) string                  { return "job " + job }
func ofKey(key string) string                  { return "key " + key }
func ofAttempt(job string, attempt int) string { return "attempt " + strconv.Itoa(attempt) + " " + job }
func ofName(name string) string                { return "name " + name }

func (c call) subjects() []string {
	subjects := []string{ofJob(c.job), ofAttempt(c.job, c.attempt), ofName(c.name())}
	if c.key != "" {
		subjects = append(subjects, ofKey(c.key))
	}
	return subjects
}

// receive counts a request, and returns how many of its name there are now.
func (b *board) receive(c call) (ordinal int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.counts) >= mostSubjects {
		return 0, errFull
	}
	for _, subject := range c.subjects() {
		b.count(subject).Requests++
	}
	b.totals.Requests++
	b.change()
	return b.counts[ofName(c.name())].Requests, nil
}

// execute counts the effect of a received request.
func (b *board) execute(c call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, subject := range c.subjects() {
		b.counts[subject].Executions++
	}
	if b.counts[ofAttempt(c.job, c.attempt)].Executions > 1 {
		b.totals.Repeated++
	}
	b.totals.Executions++
	b.change()
}

// note counts what happened to a call beside its request. A full board keeps to the
// subjects that it has.
func (b *board) note(subjects []string, count func(*Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, subject := range subjects {
		if b.counts[subject] != nil || len(b.counts) < mostSubjects {
			count(b.count(subject))
		}
	}
	count(&b.totals.Counts)
	b.change()
}

func (b *board) replay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.totals.Replayed++
}

// change wakes everyone who waits. The caller holds the lock.
func (b *board) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *board) read(subject string) (Counts, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.counts[subject]; c != nil {
		return *c, b.changed
	}
	return Counts{}, b.changed
}

func (b *board) readTotals() Totals {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.totals
}

// await returns the subject's counts once they reach least, or as they are then with
// the context's error or errReset.
func (b *board) await(ctx context.Context, subject string, least Counts) (Counts, error) {
	for {
		counts, changed := b.read(subject)
		if counts.reach(least) {
			return counts, nil
		}
		select {
		case <-changed:
		case <-b.ended:
			return counts, errReset
		case <-ctx.Done():
			return counts, ctx.Err()
		}
	}
}
