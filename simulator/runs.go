package simulator

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync"
	"time"
)

// run is what the simulator remembers of a call, for those who ask what became of it.
type run struct {
	call
	id   string // the simulator's reference
	made time.Time
	ctx  context.Context // ends with a cancel, and with the client's leaving before the call is accepted
	stop context.CancelFunc

	// Guarded by runs.
	state   State
	ended   time.Time // zero: not done
	lookUps int
}

// runs finds the newest calls by the simulator's reference and by the caller's: key, or
// job and attempt. A call that had no effect is not found.
type runs struct {
	most int // that are remembered: the newest

	mu     sync.Mutex
	byName map[string][]*run // several calls may have a name; the last one counts
	order  []*run            // the oldest first
}

func newRuns(most int) *runs { return &runs{most: most, byName: map[string][]*run{}} }

// The names by which a call is found, within its provider.
func byReference(id string) string      { return "ref " + id }
func byKey(provider, key string) string { return "key " + provider + " " + key }
func byAttempt(provider, job string, attempt int) string {
	return "attempt " + provider + " " + strconv.Itoa(attempt) + " " + job
}

func (r *run) names() []string {
	names := []string{byReference(r.id)}
	if r.key != "" {
		names = append(names, byKey(r.provider, r.key))
	}
	if r.job != "" {
		names = append(names, byAttempt(r.provider, r.job, r.attempt))
	}
	return names
}

// add remembers a call that begins, under ctx, and forgets the oldest beyond the bound.
func (r *runs) add(ctx context.Context, c call) *run {
	made := &run{call: c, id: newID(c.format.idPrefix()), made: time.Now().UTC(), state: Queued}
	made.ctx, made.stop = context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range made.names() {
		r.byName[name] = append(r.byName[name], made)
	}
	if r.order = append(r.order, made); len(r.order) > r.most {
		r.remove(r.order[0])
		r.order[0] = nil
		r.order = r.order[1:]
	}
	return made
}

// forget makes a call not found.
func (r *runs) forget(gone *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(gone)
}

// remove takes a call's names away. The caller holds the lock.
func (r *runs) remove(gone *run) {
	for _, name := range gone.names() {
		r.byName[name] = without(r.byName[name], gone)
		if len(r.byName[name]) == 0 {
			delete(r.byName, name)
		}
	}
}

func without(runs []*run, gone *run) []*run {
	var rest []*run
	for _, one := range runs {
		if one != gone {
			rest = append(rest, one)
		}
	}
	return rest
}

// find returns the newest call of that name, or nil.
func (r *runs) find(name string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if named := r.byName[name]; len(named) > 0 {
		return named[len(named)-1]
	}
	return nil
}

// execute has the effect and ends the call, unless it was cancelled: then it does
// nothing and returns false. Nobody sees the end before the effect.
func (r *runs) execute(one *run, effect func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.state.final() {
		return false
	}
	effect()
	one.end(cmp.Or(one.Outcome, Succeeded))
	return true
}

// cancel ends a call that is not done, and says whether it did.
func (r *runs) cancel(one *run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.state.final() {
		return false
	}
	one.end(Cancelled)
	one.stop()
	return true
}

func (r *run) end(state State) { r.state, r.ended = state, time.Now().UTC() }

// see counts a look-up of the call and returns how many there were, this one included,
// and what it sees. The first look-up of a call that is not done sees it queued.
func (r *runs) see(one *run) (ordinal int, seen sight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one.lookUps++
	seen = one.sight()
	if one.state == Queued {
		one.state = Running
	}
	return one.lookUps, seen
}

// glance is see without counting.
func (r *runs) glance(one *run) sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return one.sight()
}

// sight is what a run was like at one moment.
type sight struct {
	*run
	state State
	ended time.Time
}

func (r *run) sight() sight { return sight{run: r, state: r.state, ended: r.ended} }

// newID returns a name that nobody can guess.
func newID(prefix string) string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // it never fails
	return prefix + hex.EncodeToString(random[:])
}
