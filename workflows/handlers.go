package workflows

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// AttemptDecision is the payload of the signal and the update cancel-attempt, and with As
// and Result of the update resolve-attempt.
type AttemptDecision struct {
	Attempt int                 `json:"attempt,omitempty"` // 0: the unresolved one
	As      onejob.AttemptState `json:"as,omitempty"`      // failed or succeeded
	Result  json.RawMessage     `json:"result,omitempty"`  // of one that succeeded
	Reason  string              `json:"reason,omitempty"`
	By      string              `json:"by,omitempty"`
	Token   string              `json:"token,omitempty"` // the same for the same decision told twice; default: the update's ID within the job's run
}

// JobDecision is the payload of the signal cancel-job.
type JobDecision struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// AttemptRequest is the payload of the update start-attempt.
type AttemptRequest struct {
	Provider    string `json:"provider"`
	Uncertified bool   `json:"uncertified,omitempty"` // although it may have no certificate for the contract of the job's kind
	Reason      string `json:"reason,omitempty"`
	By          string `json:"by,omitempty"`
}

// SubmitReply is what the update submit returns.
type SubmitReply struct {
	JobID   string `json:"job_id"`
	Created bool   `json:"created"`
}

// setHandlers sets up the query, the updates and the signals.
func (j *jobRun) setHandlers(ctx workflow.Context) error {
	if err := workflow.SetQueryHandlerWithOptions(ctx, QueryJob, j.view, workflow.QueryHandlerOptions{
		Description: "The job as its workflow sees it, without the payloads",
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateSubmit, j.submit, workflow.UpdateHandlerOptions{
		Description: "Submit the full request: returns the job id, or the conflict",
	}); err != nil {
		return err
	}
	if err := j.setDecisionHandlers(ctx); err != nil {
		return err
	}
	j.receiveSignals(ctx)
	return nil
}

func (j *jobRun) setDecisionHandlers(ctx workflow.Context) error {
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateStartAttempt, func(ctx workflow.Context, r AttemptRequest) (onejob.Progress, error) {
		return j.decide(ctx, onejob.Decision{Action: onejob.DecideStartAttempt, Provider: r.Provider, Uncertified: r.Uncertified, By: r.By, Reason: r.Reason})
	}, workflow.UpdateHandlerOptions{
		Description: `Ask for a new attempt: {"provider":"…"}; refused while one is unresolved, and for a provider without a certificate unless "uncertified":true`,
		Validator:   func(AttemptRequest) error { return j.refuseWhileUnresolved() },
	}); err != nil {
		return err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, UpdateCancelAttempt, func(ctx workflow.Context, d AttemptDecision) (onejob.Progress, error) {
		return j.decide(ctx, onejob.Decision{Action: onejob.DecideCancelAttempt, Attempt: d.Attempt, By: d.By, Reason: d.Reason, Token: d.Token})
	}, workflow.UpdateHandlerOptions{
		Description: `Give up the unresolved attempt: {"attempt":1,"reason":"…","by":"…"}`,
		Validator:   j.refuseUnlessUnresolved,
	}); err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, UpdateResolveAttempt, func(ctx workflow.Context, d AttemptDecision) (onejob.Progress, error) {
		return j.decide(ctx, onejob.Decision{Action: onejob.DecideResolveAttempt, Attempt: d.Attempt, As: d.As, Result: d.Result, By: d.By, Reason: d.Reason, Token: d.Token})
	}, workflow.UpdateHandlerOptions{
		Description: `Say what became of the unresolved attempt: {"attempt":1,"as":"failed|succeeded","result":…,"reason":"…","by":"…"}`,
		Validator:   j.refuseUnlessUnresolved,
	})
}

// refuseWhileUnresolved judges by what the run knows; the rows have the last word.
func (j *jobRun) refuseWhileUnresolved() error {
	if a, ok := j.progress.Unresolved(); ok && !j.stale {
		return activities.TemporalError(onejob.UnresolvedError(j.ref.JobID, a))
	}
	return nil
}

func (j *jobRun) refuseUnlessUnresolved(d AttemptDecision) error {
	if j.stale || !j.opened {
		return nil
	}
	for _, a := range j.progress.Attempts {
		if a.Unresolved() && (d.Attempt == 0 || d.Attempt == a.Number) {
			return nil
		}
	}
	if d.Attempt != 0 && j.position(d.Attempt) < 0 {
		return activities.TemporalError(onejob.Errorf(onejob.CodeNotFound, "job %s has no attempt %d: see 'onejob attempt list %s'", j.ref.JobID, d.Attempt, j.ref.JobID))
	}
	return activities.TemporalError(onejob.Errorf(onejob.CodeNothingToResolve, "job %s has no such unresolved attempt: there is nothing to cancel or resolve", j.ref.JobID))
}

// submit answers somebody who sent the full request to this run's ID.
func (j *jobRun) submit(ctx workflow.Context, text json.RawMessage) (SubmitReply, error) {
	request, err := onejob.DecodeRequest(text)
	if err != nil {
		return SubmitReply{}, activities.TemporalError(err)
	}
	if err := workflow.Await(ctx, func() bool { return j.opened }); err != nil {
		return SubmitReply{}, err
	}
	registration, err := j.register(ctx, request)
	if err != nil {
		return SubmitReply{}, err
	}
	reply := SubmitReply{JobID: registration.Job.JobID, Created: registration.Created || j.created}
	j.created = false
	return reply, nil
}

// decide records somebody's decision and lets the run see what it changed.
func (j *jobRun) decide(ctx workflow.Context, d onejob.Decision) (onejob.Progress, error) {
	if err := workflow.Await(ctx, func() bool { return j.opened }); err != nil {
		return onejob.Progress{}, err
	}
	if j.openErr != nil {
		return onejob.Progress{}, j.openErr
	}
	d.JobID = j.ref.JobID
	if d.Token == "" {
		d.Token = workflow.GetInfo(ctx).OriginalRunID + "/update/" + workflow.GetCurrentUpdateInfo(ctx).ID
	}
	if d.By == "" {
		d.By = "temporal"
	}
	if d.Action == onejob.DecideCancelAttempt {
		if a, ok := j.progress.Unresolved(); ok && d.Attempt == 0 {
			d.Attempt = a.Number // whoever gets an answer meanwhile, the other is not meant
		}
		j.cancelAtProvider(ctx, d)
	}
	var a *activities.Activities
	progress, err := durable[onejob.Progress](ctx, string(d.Action)+" by "+d.By, a.Decide, d)
	j.stale = true
	return progress, err
}

// receiveSignals takes signals until the run ends. Each channel has a coroutine of its
// own: the SDK drops a payload that it cannot read and waits for the channel's next one,
// which must not keep the others waiting.
func (j *jobRun) receiveSignals(ctx workflow.Context) {
	receive(ctx, SignalAttemptChanged, "An attempt's row changed: read the rows", func(workflow.Context, AttemptChange) {
		j.stale = true
		j.forgetEndedSearches() // a name for the call may be new, by which it can be looked up
	})
	receive(ctx, SignalCancelAttempt, `Give up the unresolved attempt: {"attempt":1,"reason":"…","by":"…"}`, func(ctx workflow.Context, d AttemptDecision) {
		j.decideBySignal(ctx, onejob.Decision{Action: onejob.DecideCancelAttempt, Attempt: d.Attempt, By: d.By, Reason: d.Reason})
	})
	receive(ctx, SignalCancelJob, `Cancel the job: {"reason":"…","by":"…"}`, func(ctx workflow.Context, d JobDecision) {
		j.decideBySignal(ctx, onejob.Decision{Action: onejob.DecideCancelJob, By: d.By, Reason: d.Reason})
	})
}

// receive calls take for every signal of the name whose payload can be read.
func receive[T any](ctx workflow.Context, name, description string, take func(workflow.Context, T)) {
	channel := workflow.GetSignalChannelWithOptions(ctx, name, workflow.SignalChannelOptions{Description: description})
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var payload T
			channel.Receive(ctx, &payload)
			take(ctx, payload)
		}
	})
}

// decideBySignal records a decision that nobody waits for. One that the rows refuse is
// logged: a signal has no way to answer. Its token survives a reset, after which
// Temporal hands the signal to the new run again: it stays one decision.
func (j *jobRun) decideBySignal(ctx workflow.Context, d onejob.Decision) {
	j.deciding++
	j.signals++
	d.Token = fmt.Sprintf("%s/signal/%d/%x", workflow.GetInfo(ctx).OriginalRunID, j.signals, sha256.Sum256([]byte(fmt.Sprint(d))))
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { j.deciding-- }()
		if _, err := j.decide(ctx, d); err != nil {
			workflow.GetLogger(ctx).Warn("a decision by signal was refused", "job_id", j.ref.JobID, "action", d.Action, "error", err)
		}
	})
}

// listenForCancel turns a cancellation of the workflow into a cancellation of the job.
func (j *jobRun) listenForCancel(cancelled, steady workflow.Context) {
	workflow.Go(steady, func(ctx workflow.Context) {
		cancelled.Done().Receive(ctx, nil)
		j.decideBySignal(ctx, onejob.Decision{Action: onejob.DecideCancelJob, By: "temporal", Reason: "the workflow was cancelled"})
	})
}
