package activities

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// AttemptInput is the attempt to execute.
type AttemptInput struct {
	JobID     string          `json:"job_id"`
	Number    int             `json:"number"`
	Lane      int             `json:"lane,omitempty"`
	Provider  string          `json:"provider"`
	Timeout   onejob.Duration `json:"timeout"`
	ListenFor onejob.Duration `json:"listen_for"`
}

// AttemptReport says what became of the attempt.
type AttemptReport struct {
	Attempt onejob.Attempt `json:"attempt,omitzero"`
	Adopt   bool           `json:"adopt,omitempty"` // it did not start: the rows are ahead of the workflow, read them
}

// ExecuteAttempt commits the attempt's row, calls the provider once, and records what
// became of it. A provider that is silent past the timeout makes the attempt unknown;
// the execution goes on listening up to listen_for, and records a late answer.
//
// It survives Temporal's belief that it is dead: what it learns, it records. It ends
// early when the attempt was given up, and when the worker stops.
func (a *Activities) ExecuteAttempt(ctx context.Context, in AttemptInput) (AttemptReport, error) {
	e := a.newExecution(ctx, in)
	defer e.close()
	started, err := e.start(ctx)
	if err == nil && started.Skipped != nil {
		return AttemptReport{Attempt: e.skipped(*started.Skipped)}, nil
	}
	if err != nil || !started.Mine {
		return AttemptReport{Adopt: true}, TemporalError(err)
	}
	e.kind, e.contract, e.input = started.Kind, e.Contracts[started.Kind], len(started.Input)
	attempt, err := e.record(e.call(ctx, started))
	return AttemptReport{Attempt: attempt}, TemporalError(err)
}

// execution is one run of ExecuteAttempt.
type execution struct {
	*Activities
	in         AttemptInput
	provider   provider.Provider
	named      bool // the configuration names the provider
	workflowID string
	kind       string             // of the job, once it has started
	contract   *contract.Contract // by which the provider is asked; nil: by the job's input as it is
	input      int                // bytes of what the provider is asked
	token      string             // of this execution: the row that carries it is ours
	alive      context.Context    // outlives Temporal's belief; ends some time after the worker stops
	close      func()
	believed   bool // the workflow learns the outcome from our return: Temporal has not given up on us
}

func (a *Activities) newExecution(ctx context.Context, in AttemptInput) *execution {
	e := &execution{Activities: a, in: in, token: uuid.NewString(), believed: true}
	e.workflowID = activity.GetInfo(ctx).WorkflowExecution.ID
	e.provider, e.named = a.Providers.Get(in.Provider)
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stopHeartbeat := heartbeat(ctx, nothingToTell)
	stopReaper := endAfterStop(ctx, a.Drain, cancel)
	e.alive = alive
	e.close = func() {
		stopHeartbeat()
		stopReaper()
		cancel()
	}
	return e
}

// start asks Postgres for the permission to call, until it is known whether it was given.
// While the provider has as many calls under way as it may, it waits.
func (e *execution) start(ctx context.Context) (started postgres.Started, err error) {
	ctx, release := untilWorkerStops(ctx)
	defer release()
	for pause := newPause(firstBusyPause, longestBusyPause); ; {
		if started, err = e.tryStart(ctx); err != nil || !started.Busy || !pause.wait(ctx) {
			return started, err
		}
	}
}

const (
	firstBusyPause   = 50 * time.Millisecond
	longestBusyPause = 2 * time.Second
)

// tryStart asks until it is known. When Temporal has given up on the execution, an answer
// by which nothing was committed is enough: the place is for others.
func (e *execution) tryStart(ctx context.Context) (postgres.Started, error) {
	return retriedWhile(e.alive, logOf(e.Logger, e.in.JobID, e.in.Number), func(err error) bool {
		return ctx.Err() == nil || errors.Is(err, onejob.ErrServerUnreachable)
	}, func(ctx context.Context) (postgres.Started, error) {
		return e.Store.StartAttemptIfNoneLives(ctx, postgres.Start{
			JobID: e.in.JobID, WorkflowID: e.workflowID, Number: e.in.Number, Lane: e.in.Lane,
			Provider: e.in.Provider, Model: e.provider.Model, Execution: e.token, Request: e.requestToKeep(),
			SentTo: destination(e.provider), MostAtOnce: e.provider.Limits.Concurrent,
			Contract: e.known, Adapter: e.provider.AdapterVersion(),
		})
	})
}

// call calls the provider and listens for its answer.
func (e *execution) call(ctx context.Context, started postgres.Started) provider.Answer {
	if !e.named {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonUnknownProvider, Retryable: true, RetryAfter: unknownProviderPause,
			Detail: "this worker's onejob.yaml does not name the provider"}
	}
	if ctx.Err() != nil {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonNotSent, Retryable: true, Detail: "given up before it was sent"}
	}
	if e.Listening.Full(e.in.Provider) {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonProviderSilent, Retryable: true, RetryAfter: silentProviderPause,
			Detail: "not called: as many attempts on this provider as this worker allows are listening to its silence"}
	}
	if openFor := e.Circuits.barred(ctx, e.in.Provider); openFor > 0 {
		return notCalled(openFor)
	}
	asked, err := e.asked(started.Kind, started.Input)
	if err != nil {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonRejected, Detail: "not sent: " + err.Error()}.Checked(e.Catalog.Limits)
	}
	e.input = len(asked)
	callCtx, hangUp := context.WithCancel(e.alive)
	defer hangUp()
	answers := make(chan provider.Answer, 1)
	go func() { answers <- e.ask(callCtx, started.Kind, asked) }()
	l := listener{execution: e, answers: answers, hangUp: hangUp}
	return judged(e.contract, e.provider, started.Input, e.input, l.listen(ctx)).Checked(e.Catalog.Limits)
}

// unknownProviderPause is what a worker with a newer configuration gets to take the next
// attempt: workers are replaced one after the other.
const unknownProviderPause = time.Minute

// silentProviderPause is what a provider that answers nobody gets before the next
// attempt.
const silentProviderPause = 30 * time.Second

// ask calls the provider, and follows a call that it took. An adapter that panics may
// have sent its request before.
func (e *execution) ask(ctx context.Context, kind string, asked json.RawMessage) (answer provider.Answer) {
	defer e.recoverAdapter(e.in.JobID, e.in.Number, &answer)
	answer = e.provider.Adapter.Call(ctx, provider.Call{
		JobID: e.in.JobID, Attempt: e.in.Number, Kind: kind, Input: asked,
		IdempotencyKey: idempotencyKey(e.in.JobID, e.in.Number), CallbackURL: e.callbackURL(e.provider, e.in.JobID, e.in.Number),
	}).Checked(e.Catalog.Limits)
	if answer.Certainty == provider.Accepted {
		return e.follow(ctx, answer.Reference)
	}
	return answer
}

// recoverAdapter turns a panic of an adapter into an answer that says nothing.
func (a *Activities) recoverAdapter(jobID string, attempt int, answer *provider.Answer) {
	if r := recover(); r != nil {
		a.Logger.Error("an adapter panicked", "job_id", jobID, "attempt", attempt, "panic", r, "stack", string(debug.Stack()))
		*answer = provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonUnspecified, Detail: "the adapter panicked"}
	}
}

// idempotencyKey is the provider-side key: one per attempt, stable across re-asks.
func idempotencyKey(jobID string, number int) string {
	return uuid.NewSHA1(uuid.MustParse(jobID), []byte{byte(number >> 24), byte(number >> 16), byte(number >> 8), byte(number)}).String()
}

// wanted says whether the attempt still has no outcome, as far as Postgres tells.
func (e *execution) wanted() bool {
	ctx, cancel := context.WithTimeout(e.alive, onceTimeout)
	defer cancel()
	attempts, err := e.Store.Attempts(ctx, e.in.JobID)
	if err != nil {
		return true
	}
	for _, attempt := range attempts {
		if attempt.Number == e.in.Number {
			return !attempt.State.Final()
		}
	}
	return true
}
