package messages

import (
	"context"
	"errors"
	"time"

	"github.com/onejob/onejob"
)

// loop takes one batch of its consumer after the other.
type loop struct {
	Runner
	consumer Consumer
	wake     <-chan struct{}
	trouble  trouble
}

// run takes batches until ctx ends. Under way they have until work ends. The first message
// after a quiet time is taken at once; those that follow it gather.
func (l *loop) run(ctx, work context.Context) {
	poll := time.NewTicker(l.Poll)
	defer poll.Stop()
	for ctx.Err() == nil {
		got, err := l.turn(work)
		switch {
		case ctx.Err() != nil: // what came of the last turn is told by its claims
		case !l.trouble.over(err):
			l.trouble.pause(ctx)
		case got == enough:
		default:
			if got == some {
				pause(ctx, l.Gather)
			}
			select {
			case <-ctx.Done():
			case <-l.wake:
			case <-poll.C:
			}
		}
	}
}

// found is what a turn found.
type found int

const (
	nothing found = iota
	some
	enough // there is likely to be more
)

// turn takes a batch and applies it.
func (l *loop) turn(ctx context.Context) (found, error) {
	began := time.Now()
	taken, err := l.Store.TakeBatch(ctx, l.consumer)
	switch {
	case err != nil || len(taken.Batch) == 0 && len(taken.Dead) == 0:
		return nothing, err
	case len(taken.Dead) > 0:
		l.note(Applied{Failed: len(taken.Dead), Dead: len(taken.Dead), Reason: "the last try never ended"})
		return enough, nil
	}
	err = l.apply(ctx, taken.Batch, began.Add(l.consumer.Lease))
	if len(taken.Batch) == l.consumer.Batch || taken.Batch[0].Tries > 1 {
		return enough, err
	}
	return some, err
}

// applyTries bounds how often a batch is given to a database that rolls it back.
const applyTries = 5

// apply applies the batch, again if the database gave it up or may have committed it. If that
// goes on the batch is left: it comes due when its lease is over.
func (l *loop) apply(ctx context.Context, batch []Message, lease time.Time) error {
	for try := 1; ; try++ {
		applied, err := l.Store.ApplyBatch(ctx, l.consumer, batch)
		l.note(applied)
		if !errors.Is(err, onejob.ErrServerUnreachable) || try == applyTries || time.Now().After(lease) {
			return err
		}
		pause(ctx, pauseAfter(try))
	}
}

// note counts, and logs what failed: in one line for a batch.
func (l *loop) note(applied Applied) {
	if l.Observer != nil {
		l.Observer.MessagesApplied(l.consumer.Group, applied)
	}
	if applied.Failed > 0 {
		l.trouble.logger.Warn("messages failed: they are tried again, or dead after their last try (see 'onejob deadletter list')",
			"failed", applied.Failed, "dead", applied.Dead, "reason", applied.Reason)
	}
}
