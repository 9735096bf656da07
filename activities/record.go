package activities

import (
	"context"
	"errors"
	"log/slog"
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
	e.observe(e.alive, e.in.Provider, e.kind, recorded)
	if recorded.WasUnknown || recorded.Late || !e.believed {
		e.tell()
	}
	recorded.Attempt.Detail = "" // a workflow carries codes
	return recorded.Attempt, nil
}

// write records what is certain about the call.
func (e *execution) write(answer provider.Answer) (postgres.Recorded, error) {
	r := recorder{e.Activities, e.in.JobID, e.in.Number, e.in.Provider, e.token, e.input}
	if answer.Certainty == provider.Succeeded || answer.Certainty == provider.Failed {
		return r.writeOutcome(e.alive, answer)
	}
	usage, err := answer.Usage.JSON()
	if err != nil {
		return postgres.Recorded{}, err
	}
	return retried(e.alive, r.log(), func(ctx context.Context) (postgres.Recorded, error) {
		return e.Store.MarkUnknownIfLive(ctx, e.in.JobID, e.in.Number,
			postgres.Silence{Reason: answer.Reason, Detail: answer.Detail, Reference: answer.Reference, Usage: usage})
	})
}

// recorder writes the outcome of one attempt, whoever found it out.
type recorder struct {
	*Activities
	jobID    string
	attempt  int
	provider string
	token    string // of who found out: what it wrote before is its own
	input    int    // bytes of the job's input
}

func (r recorder) log() *slog.Logger { return logOf(r.Logger, r.jobID, r.attempt) }

func logOf(log *slog.Logger, jobID string, attempt int) *slog.Logger {
	return log.With("job_id", jobID, "attempt", attempt)
}

// writeOutcome records a final answer, for as long as that takes. One that comes after
// the attempt's outcome is dropped, and counted if it was a result.
func (r recorder) writeOutcome(ctx context.Context, answer provider.Answer) (postgres.Recorded, error) {
	outcome, err := OutcomeOf(answer, r.input, r.token)
	if err != nil {
		return postgres.Recorded{}, err
	}
	recorded, err := retried(ctx, r.log(), func(ctx context.Context) (postgres.Recorded, error) {
		return r.Store.RecordOutcomeIfLive(ctx, r.jobID, r.attempt, outcome)
	})
	if outcome.State == onejob.AttemptSucceeded && (recorded.Late || recorded.Attempt.Discarded) {
		r.Observer.RaceLost(r.provider)
		r.Logger.Warn("result discarded: it came too late", "job_id", r.jobID, "attempt", r.attempt, "attempt_state", recorded.Attempt.State)
	}
	return recorded, err
}

// OutcomeOf returns a final answer as it is recorded on behalf of by. What a success used
// and did not tell is estimated, from the bytes of the job's input among others.
func OutcomeOf(answer provider.Answer, inputBytes int, by string) (postgres.Outcome, error) {
	o := postgres.Outcome{
		State: onejob.AttemptFailed, Reason: answer.Reason, Detail: answer.Detail, Retryable: answer.Retryable, RetryAfter: answer.RetryAfter,
		Reference: answer.Reference, RecordedBy: by,
	}
	if answer.Certainty == provider.Succeeded {
		o.State, o.Reason, o.Retryable, o.RetryAfter, o.Result = onejob.AttemptSucceeded, "", false, 0, answer.Result
		if answer.Usage == nil {
			answer.Usage = provider.EstimateUsage(inputBytes, len(answer.Result))
		}
	}
	var err error
	o.Usage, err = answer.Usage.JSON()
	return o, err
}

// observe counts the state that an attempt of a job of that kind came into by what was
// recorded.
func (a *Activities) observe(ctx context.Context, provider, kind string, recorded postgres.Recorded) {
	if recorded.Changed {
		a.Observer.AttemptBecame(provider, recorded.Attempt.State, recorded.Attempt.Reason)
		a.Circuits.heard(ctx, provider, recorded.Attempt)
	}
	p, _ := a.Providers.Get(provider)
	JudgeOf(a.Options).Heard(ctx, p, kind, recorded)
}

// retryWarnings is how often it is said of one thing that it still does not succeed.
const retryWarnings = time.Minute

// retried repeats do until it is done or ctx ends. What the database refuses today it may
// take tomorrow, after somebody mended it; an answer that was paid for waits for that.
// Only what can never be is given up.
// The log, which has the ids, is told at the first failure and then every minute.
func retried[T any](ctx context.Context, log *slog.Logger, do func(context.Context) (T, error)) (T, error) {
	return retriedWhile(ctx, log, func(error) bool { return true }, do)
}

// retriedWhile is retried as long as worth says that the error is worth another try.
func retriedWhile[T any](ctx context.Context, log *slog.Logger, worth func(error) bool, do func(context.Context) (T, error)) (T, error) {
	var warned time.Time
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		result, err := once(ctx, do)
		if err == nil || errors.Is(err, onejob.ErrNotFound) || errors.Is(err, onejob.ErrIdentityMismatch) || !worth(err) {
			return result, err
		}
		if time.Since(warned) >= retryWarnings {
			warned = time.Now()
			log.Warn("postgres does not take it; it is tried again until it does", "error", err)
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

// nothingToTell is for an activity whose heartbeat says only that it lives.
func nothingToTell() []any { return nil }

// heartbeat tells Temporal every third of the heartbeat timeout that the execution
// lives, and how far it is. The returned function stops it and waits until it has.
func heartbeat(ctx context.Context, howFar func() []any) (stop func()) {
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
				activity.RecordHeartbeat(ctx, howFar()...)
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
