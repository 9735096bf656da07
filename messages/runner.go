package messages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onejob/onejob"
)

// Observer counts what runners do.
type Observer interface {
	MessagesApplied(group string, applied Applied)
}

// Runner runs consumers. In memory there is one batch of each of their loops at a time.
type Runner struct {
	Store     Store
	Consumers []Consumer
	Observer  Observer      // default: nobody counts
	Poll      time.Duration // default 1 s; how often messages are looked for that nobody told of
	Gather    time.Duration // default 200 ms; from one batch that is not full to the next of its loop
	Drain     time.Duration // default 10 s; what batches under way get when the runner stops
	Logger    *slog.Logger  // default [slog.Default]
}

func (r Runner) orDefault() Runner {
	r.Poll = cmp.Or(r.Poll, time.Second)
	r.Gather = cmp.Or(r.Gather, 200*time.Millisecond)
	r.Drain = cmp.Or(r.Drain, 10*time.Second)
	r.Logger = cmp.Or(r.Logger, slog.Default())
	return r
}

// Check says what is wrong with a consumer. Two of one group would share its claims.
func Check(consumers []Consumer) error {
	groups := map[string]bool{}
	for _, c := range consumers {
		if err := c.Check(); err != nil {
			return err
		}
		if groups[c.Group] {
			return onejob.Errorf(onejob.CodeMisconfigured, "two consumers are of the group %s: name one of them otherwise, for claims are kept under it", c.Group)
		}
		groups[c.Group] = true
	}
	return nil
}

// Run subscribes the consumers and applies what comes until ctx ends; then the batches under
// way are finished. A database that does not answer is waited for. It fails if a consumer
// cannot be run as it stands, or the database refuses to subscribe it.
func (r Runner) Run(ctx context.Context) error {
	if err := Check(r.Consumers); err != nil {
		return err
	}
	r = r.orDefault()
	running, ctx := errgroup.WithContext(ctx)
	work, stop := graceful(ctx, r.Drain)
	defer stop()
	wakes := &wakes{}
	for _, c := range r.Consumers {
		c = c.OrDefault()
		running.Go(func() error {
			if err := r.subscribe(ctx, c); err != nil {
				return err
			}
			r.runLoops(ctx, work, c, wakes)
			return nil
		})
	}
	running.Go(func() error { r.listen(ctx, wakes); return nil })
	return running.Wait()
}

// subscribe tries until it is done or ctx ends. What the database refuses it would refuse
// again.
func (r Runner) subscribe(ctx context.Context, c Consumer) error {
	t := trouble{logger: r.Logger.With("group", c.Group)}
	for ctx.Err() == nil {
		err := r.Store.Subscribe(ctx, c.Group, c.Topics, c.From)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !errors.Is(err, onejob.ErrServerUnreachable):
			return fmt.Errorf("group %s cannot hear messages: %w", c.Group, err)
		case t.over(err):
			return nil
		}
		t.pause(ctx)
	}
	return nil
}

func (r Runner) runLoops(ctx, work context.Context, c Consumer, wakes *wakes) {
	var running sync.WaitGroup
	for range c.Loops {
		running.Go(func() {
			l := loop{Runner: r, consumer: c, wake: wakes.add(c.Group), trouble: trouble{logger: r.Logger.With("group", c.Group)}}
			l.run(ctx, work)
		})
	}
	running.Wait()
}

// listen passes notifications on until ctx ends. Without them there is polling.
func (r Runner) listen(ctx context.Context, wakes *wakes) {
	t := trouble{logger: r.Logger}
	for ctx.Err() == nil {
		err := r.Store.Listen(ctx, func(group string) { t.over(nil); wakes.group(group) })
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrCannotListen):
			r.Logger.Info("messages are polled for", "every", r.Poll, "because", err)
			return
		}
		t.over(err)
		t.pause(ctx)
	}
}

// graceful returns a context that ends a while after ctx does.
func graceful(ctx context.Context, drain time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(drain, cancel)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	return work, func() { stop(); cancel() }
}
