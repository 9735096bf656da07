package simulator

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// perform takes a call through its life. keep is told of the reply to an executed or
// accepted call before anyone can see that it was. A client that leaves before, and a
// reset, end the call there.
func (e *era) perform(w http.ResponseWriter, r *http.Request, c call, keep func(reply)) {
	one := e.runs.add(r.Context(), c)
	defer one.stop()
	if !e.wait(one.ctx, time.Duration(c.Latency)) || !e.waitFor(one.ctx, c.Hold) {
		e.giveUp(one)
	}
	replied := make(chan struct{})
	defer close(replied)
	switch {
	case c.Accept && c.executes():
		e.accept(w, r, one, replied, keep)
	case c.executes():
		e.execute(w, r, one, replied, keep)
	default:
		e.runs.forget(one)
		e.answer(w, r, c, one.reply())
	}
}

// giveUp ends a call that had no effect, as if it had never come: only a cancelled one
// can still be found.
func (e *era) giveUp(one *run) {
	if e.runs.glance(one).state != Cancelled {
		e.runs.forget(one)
	}
	hangUp()
}

func (e *era) execute(w http.ResponseWriter, r *http.Request, one *run, replied <-chan struct{}, keep func(reply)) {
	answer := one.reply()
	if !e.runs.execute(one, func() { keep(answer); e.board.execute(one.call) }) {
		e.giveUp(one)
	}
	if one.tells() {
		e.tellBesides(r.Context(), one, replied)
	}
	e.answer(w, r, one.call, answer)
}

// answer does what is left of a call on its connection.
func (e *era) answer(w http.ResponseWriter, r *http.Request, c call, answer reply) {
	if c.ExecuteThenDrop {
		hangUp()
	}
	silence := ""
	if c.Silence {
		silence = cmp.Or(c.job, "silence")
	}
	ctx := r.Context()
	if !e.waitFor(ctx, c.HoldAfter) || !e.waitFor(ctx, silence) || !e.wait(ctx, time.Duration(c.Late)) {
		hangUp()
	}
	e.write(w, r, c, answer)
	if c.tells() {
		_ = http.NewResponseController(w).Flush() // a callback after the reply shall not be faster
	}
}

// write writes an answer, whole or not.
func (e *era) write(w http.ResponseWriter, r *http.Request, c call, answer reply) {
	switch {
	case answer.events != nil:
		e.stream(w, r, c, answer)
	case c.CutBody:
		answer.writeHalf(w)
	default:
		answer.write(w)
	}
}

// stream writes the events that the directives leave, in two halves.
func (e *era) stream(w http.ResponseWriter, r *http.Request, c call, answer reply) {
	events := answer.events[:max(0, len(answer.events)-c.CutStream)]
	first, second := answer, answer
	first.events, second.events = events[:len(events)/2], events[len(events)/2:]
	first.write(w)
	_ = http.NewResponseController(w).Flush()
	if c.CutBody || !e.waitFor(r.Context(), c.HoldStream) {
		hangUp()
	}
	_, _ = w.Write(second.text())
}

// wait waits, and returns false if ctx or the era ends before.
func (e *era) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	return until(timer.C, ctx, e.ctx)
}

// waitFor waits until the name is released, and returns false if ctx or the era ends
// before, or if too many names are held. An empty name is no wait.
func (e *era) waitFor(ctx context.Context, name string) bool {
	if name == "" {
		return true
	}
	released, err := e.gates.enter(name)
	if err != nil {
		return false
	}
	defer e.gates.leave(name)
	return until(released, ctx, e.ctx)
}

// until waits for an event, and returns false if one of the contexts ends before.
func until[T any](event <-chan T, one, other context.Context) bool {
	select {
	case <-event:
		return true
	case <-one.Done():
	case <-other.Done():
	}
	return false
}

// hangUp closes the connection without a reply. It does not return.
func hangUp() { panic(http.ErrAbortHandler) }
