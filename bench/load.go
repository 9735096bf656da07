package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onejob/onejob"
)

const (
	kindName = "bench"
	runLimit = 4 * time.Minute // of one run, after which it has failed
)

func catalog() onejob.Catalog {
	return onejob.Catalog{
		Kinds:     map[string]onejob.Kind{kindName: {}},
		Providers: map[string]onejob.ProviderDefaults{providerName: {Timeout: 30 * time.Second, ListenFor: time.Minute}},
	}
}

// request is job n of the run, a small ticket.
func request(run string, n int) onejob.Request {
	input := fmt.Sprintf(`{"ticket":%d,"subject":"printer on floor 3 prints stripes","body":"since Monday, every page, both trays"}`, n)
	return onejob.Request{Owner: run, Key: fmt.Sprintf("job-%06d", n), Kind: kindName, Provider: providerName, Input: json.RawMessage(input)}
}

// jobTimes are the moments of one job, in nanoseconds of the machine's clock.
type jobTimes struct {
	ID     string `json:"id"`    // of its workflow
	Submit int64  `json:"start"` // the call of submit, or when it was due
	Ack    int64  `json:"ack"`   // its return
	Result int64  `json:"result,omitempty"`
}

// submitted is what submitting one job leaves: its id, and what the submitter itself has
// to do until the result is there.
type submitted struct {
	id   string
	then func() error
}

// generate submits jobs from many goroutines: t.Jobs of them, or as many as t.For allows.
// At a rate, job n is due n/rate seconds after the first, whatever became of the others.
func generate(ctx context.Context, t task, submit func(ctx context.Context, n int) (submitted, error)) ([]jobTimes, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var next atomic.Int64
	var mu sync.Mutex
	var all []jobTimes
	var submitters sync.WaitGroup
	began := time.Now()
	for range t.Submitters {
		submitters.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if ctx.Err() != nil || !t.due(ctx, began, n) {
					return
				}
				times, err := submitOne(ctx, n, submit)
				if err != nil {
					fail(err)
					return
				}
				mu.Lock()
				all = append(all, times)
				mu.Unlock()
			}
		})
	}
	submitters.Wait()
	return all, context.Cause(ctx)
}

// due waits until job n is due. It returns false if there is no such job.
func (t task) due(ctx context.Context, began time.Time, n int) bool {
	if t.Jobs > 0 && n >= t.Jobs {
		return false
	}
	if t.Rate > 0 {
		timer := time.NewTimer(time.Until(began.Add(time.Duration(float64(n) / t.Rate * float64(time.Second)))))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	return t.For == 0 || time.Since(began) < t.For
}

func submitOne(ctx context.Context, n int, submit func(ctx context.Context, n int) (submitted, error)) (times jobTimes, err error) {
	times.Submit = time.Now().UnixNano()
	s, err := submit(ctx, n)
	if err != nil {
		return times, err
	}
	times.ID, times.Ack = s.id, time.Now().UnixNano()
	if s.then == nil {
		return times, nil
	}
	err = s.then()
	times.Result = time.Now().UnixNano()
	return times, err
}
