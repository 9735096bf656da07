package simulator

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// errands are what the simulator does beside its connections: the runs of accepted
// calls, and callbacks. Their number is bounded, and a reset waits for their end.
type errands struct {
	most int

	mu     sync.Mutex
	count  int
	closed bool
	wg     sync.WaitGroup
}

var errTooManyErrands = errors.New("too many accepted calls and callbacks are under way")

// start runs the errand beside the caller, and returns a channel that is closed when it
// is done.
func (e *errands) start(errand func()) (<-chan struct{}, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, errReset
	case e.count >= e.most:
		return nil, errTooManyErrands
	}
	e.count++
	done := make(chan struct{})
	e.wg.Go(func() {
		defer close(done)
		defer e.finish()
		errand()
	})
	return done, nil
}

func (e *errands) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count--
}

// end lets no errand start any more and waits for those under way.
func (e *errands) end() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.wg.Wait()
}

// accept answers with a reference, and executes the call beside the connection.
func (e *era) accept(w http.ResponseWriter, r *http.Request, one *run, replied <-chan struct{}, keep func(reply)) {
	if !e.detach(one) {
		e.giveUp(one)
	}
	done, err := e.errands.start(func() { e.follow(one, replied) })
	if err != nil {
		e.runs.forget(one)
		refuse(w, one.format, http.StatusServiceUnavailable, err)
		return
	}
	answer := one.acceptance()
	keep(answer)
	if one.tells() && one.Callback.When == Before && !until(done, r.Context(), e.ctx) {
		hangUp()
	}
	e.answer(w, r, one.call, answer)
}

// detach lets the call outlive its connection, unless it was cancelled.
func (e *era) detach(one *run) bool {
	e.runs.mu.Lock()
	defer e.runs.mu.Unlock()
	if one.state.final() {
		return false
	}
	one.stop()
	one.ctx, one.stop = context.WithCancel(e.ctx)
	return true
}

// follow takes an accepted call to its end, and tells it.
func (e *era) follow(one *run, replied <-chan struct{}) {
	defer one.stop()
	ran := e.wait(one.ctx, time.Duration(one.RunFor)) && e.waitFor(one.ctx, one.RunUntil)
	if ran {
		e.runs.execute(one, func() { e.board.execute(one.call) })
	}
	if e.ctx.Err() == nil && one.tells() {
		e.tell(one, replied)
	}
}

// tellBesides has an executed call's callback delivered: before the reply, or beside
// it.
func (e *era) tellBesides(ctx context.Context, one *run, replied <-chan struct{}) {
	done, err := e.errands.start(func() { e.tell(one, replied) })
	if err != nil {
		e.deliveries.add(one, Delivery{Error: err.Error()})
		return
	}
	if one.Callback.When == Before && !until(done, ctx, e.ctx) {
		hangUp()
	}
}
