package activities

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// record writes the answer to Postgres, for as long as that takes, and tells the workflow
// where it will not learn it from our return. It returns the attempt as the row stands.
func (e *execution) record(answer provider.Answer) (onejob.Attempt, error) {
	outcome, err := outcomeOf(answer, e.token)
	if err != nil {
		return onejob.Attempt{}, err
	}
	attempt, surprise, err := e.write(answer, outcome)
	if err != nil {
		return onejob.Attempt{}, err
	}
	e.Observer.AttemptEnded(e.in.Provider, attempt.State, attempt.Reason)
	if surprise || !e.believed {
		e.tell()
	}
	attempt.Detail = ""
	return attempt, nil
}

// write records the outcome; surprise says that others believed something else until now.
func (e *execution) write(answer provider.Answer, o postgres.Outcome) (attempt onejob.Attempt, surprise bool, err error) {
	switch answer.Certainty {
	case provider.Succeeded, provider.Failed:
		recorded, err := retried(e.alive, func(ctx context.Context) (postgres.Recorded, error) {
			return e.Store.RecordOutcomeIfLive(ctx, e.in.JobID, e.in.Number, o)
		})
		if recorded.Late && answer.Certainty == provider.Succeeded {
			e.Observer.RaceLost(e.in.Provider)
			e.Logger.Warn("late result discarded", "job_id", e.in.JobID, "attempt", e.in.Number, "attempt_state", recorded.Attempt.State)
		}
		return recorded.Attempt, recorded.WasUnknown || recorded.Late, err
	case provider.Accepted:
		if _, err := retried(e.alive, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, e.Store.MarkRunningIfStarting(ctx, e.in.JobID, e.in.Number, answer.Reference)
		}); err != nil {
			return attempt, false, err
		}
		o.Reason = onejob.ReasonAwaitingAnswer
	}
	attempt, err = retried(e.alive, func(ctx context.Context) (onejob.Attempt, error) {
		return e.Store.MarkUnknownIfLive(ctx, e.in.JobID, e.in.Number, o)
	})
	return attempt, false, err
}

func outcomeOf(answer provider.Answer, token string) (postgres.Outcome, error) {
	o := postgres.Outcome{
		State: onejob.AttemptFailed, Reason: answer.Reason, Detail: answer.Detail, RecordedBy: token,
		Retryable: answer.Certainty == provider.Failed && answer.Retryable, RetryAfter: answer.RetryAfter,
		Reference: answer.Reference, Result: answer.Result,
	}
	if answer.Certainty == provider.Succeeded {
		o.State, o.Reason = onejob.AttemptSucceeded, ""
	}
	if answer.Usage == nil {
		return o, nil
	}
	usage, err := json.Marshal(answer.Usage)
	o.Usage = usage
	return o, err
}

// retried repeats do while Postgres does not answer, until ctx ends.
func retried[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		result, err := once(ctx, do)
		if !errors.Is(err, onejob.ErrServerUnreachable) {
			return result, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			pause.Stop()
			return result, err
		case <-pause.C:
		}
	}
}

// once bounds one try, so that a connection that hangs is given up.
func once[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*onceTimeout)
	defer cancel()
	return do(ctx)
}

// heartbeat tells Temporal every third of the heartbeat timeout that the execution
// lives. The returned function stops it and waits until it has.
func heartbeat(ctx context.Context) (stop func()) {
	every := activity.GetInfo(ctx).HeartbeatTimeout / 3
	if every <= 0 {
		return func() {}
	}
	return goUntilStopped(func(stopped <-chan struct{}) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	})
}

// endAfterStop calls end when the worker has been stopping for the drain time and a
// little longer: what is not recorded by then is left to the heartbeat timeout.
func endAfterStop(ctx context.Context, drain time.Duration, end func()) (stop func()) {
	return goUntilStopped(func(stopped <-chan struct{}) {
		select {
		case <-stopped:
			return
		case <-activity.GetWorkerStopChannel(ctx):
		}
		last := time.NewTimer(drain + onceTimeout)
		defer last.Stop()
		select {
		case <-stopped:
		case <-last.C:
			end()
		}
	})
}

func goUntilStopped(run func(stopped <-chan struct{})) (stop func()) {
	stopped := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { run(stopped) })
	return func() {
		close(stopped)
		running.Wait()
	}
}
