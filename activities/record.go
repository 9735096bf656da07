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
	recorded, err := e.write(answer)
	if err != nil {
		return onejob.Attempt{}, err
	}
	e.observe(recorded)
	if recorded.WasUnknown || recorded.Late || !e.believed {
		e.tell()
	}
	recorded.Attempt.Detail = "" // a workflow carries codes
	return recorded.Attempt, nil
}

// write records what is certain about the call.
func (e *execution) write(answer provider.Answer) (postgres.Recorded, error) {
	usage, err := usageOf(answer)
	if err != nil {
		return postgres.Recorded{}, err
	}
	switch answer.Certainty {
	case provider.Succeeded, provider.Failed:
		return e.writeOutcome(answer, usage)
	case provider.Accepted:
		answer.Reason = onejob.ReasonAwaitingAnswer
		if _, err := retried(e.alive, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, e.Store.MarkRunningIfStarting(ctx, e.in.JobID, e.in.Number, answer.Reference)
		}); err != nil {
			return postgres.Recorded{}, err
		}
	}
	return retried(e.alive, func(ctx context.Context) (postgres.Recorded, error) {
		return e.Store.MarkUnknownIfLive(ctx, e.in.JobID, e.in.Number,
			postgres.Silence{Reason: answer.Reason, Detail: answer.Detail, Reference: answer.Reference, Usage: usage})
	})
}

// writeOutcome records a final answer. One that comes after the attempt's outcome is
// dropped, and counted if it was a result.
func (e *execution) writeOutcome(answer provider.Answer, usage json.RawMessage) (postgres.Recorded, error) {
	outcome := postgres.Outcome{
		State: onejob.AttemptFailed, Reason: answer.Reason, Detail: answer.Detail, Retryable: answer.Retryable, RetryAfter: answer.RetryAfter,
		Reference: answer.Reference, Usage: usage, RecordedBy: e.token,
	}
	if answer.Certainty == provider.Succeeded {
		outcome.State, outcome.Reason, outcome.Retryable, outcome.Result = onejob.AttemptSucceeded, "", false, answer.Result
	}
	recorded, err := retried(e.alive, func(ctx context.Context) (postgres.Recorded, error) {
		return e.Store.RecordOutcomeIfLive(ctx, e.in.JobID, e.in.Number, outcome)
	})
	if answer.Certainty == provider.Succeeded && (recorded.Late || recorded.Attempt.Discarded) {
		e.Observer.RaceLost(e.in.Provider)
		e.Logger.Warn("result discarded: it came too late", "job_id", e.in.JobID, "attempt", e.in.Number, "attempt_state", recorded.Attempt.State)
	}
	return recorded, err
}

// observe counts the state that an attempt came into by what was recorded.
func (e *execution) observe(recorded postgres.Recorded) {
	if recorded.Changed {
		e.Observer.AttemptBecame(e.in.Provider, recorded.Attempt.State, recorded.Attempt.Reason)
	}
}

func usageOf(answer provider.Answer) (json.RawMessage, error) {
	if answer.Usage == nil {
		return nil, nil
	}
	return json.Marshal(answer.Usage)
}

// retried repeats do until it is done or ctx ends. What the database refuses today it may
// take tomorrow, after somebody mended it; an answer that was paid for waits for that.
// Only what can never be is given up.
func retried[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		result, err := once(ctx, do)
		if err == nil || errors.Is(err, onejob.ErrNotFound) || errors.Is(err, onejob.ErrIdentityMismatch) {
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
