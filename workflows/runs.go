package workflows

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// Runs starts and signals runs of Job. It may be used concurrently.
type Runs struct {
	Client    client.Client
	TaskQueue string
}

// Start starts the first run of a job that was just registered. A run that is there
// already, or that there was, is fine: it returns false. It fails with
// [onejob.ErrServerUnreachable] and [onejob.ErrMisconfigured].
func (r Runs) Start(ctx context.Context, ref onejob.Reference) (started bool, err error) {
	return r.start(ctx, ref, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
}

// Restart starts a run that adopts the job's rows, unless one is running: then it returns
// false. It fails as Start does.
func (r Runs) Restart(ctx context.Context, ref onejob.Reference) (started bool, err error) {
	ref.Adopt = true
	return r.start(ctx, ref, enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE)
}

func (r Runs) start(ctx context.Context, ref onejob.Reference, reuse enumspb.WorkflowIdReusePolicy) (bool, error) {
	options := r.options(ref)
	options.WorkflowIDReusePolicy = reuse
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	_, err := r.Client.ExecuteWorkflow(ctx, options, JobType, ref)
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return false, nil
	}
	return err == nil, translate("start the workflow", err)
}

// Wake tells the job's run that rows changed, and starts one if none is running.
func (r Runs) Wake(ctx context.Context, ref onejob.Reference) error {
	ref.Adopt = true
	options := r.options(ref)
	_, err := r.Client.SignalWithStartWorkflow(ctx, options.ID, SignalAttemptChanged, AttemptChange{}, options, JobType, ref)
	return translate("wake the workflow", err)
}

// CancelAttempt asks the job's run to give the attempt up, its provider first, and waits
// for the answer. It fails with the refusals of the decision, and with
// [onejob.ErrServerUnreachable] where no run or no worker answers before ctx ends: it may
// have been decided all the same.
func (r Runs) CancelAttempt(ctx context.Context, workflowID string, d AttemptDecision) error {
	handle, err := r.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: workflowID, UpdateID: d.Token, UpdateName: UpdateCancelAttempt, Args: []any{d},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if refused := activities.FromTemporal(err); onejob.CodeOf(refused) != "" {
		return refused
	}
	return translate("ask the workflow to cancel the attempt", err)
}

// AttemptChange is the payload of the signal attempt-changed.
type AttemptChange struct {
	Attempt int `json:"attempt,omitempty"`
}

// AttemptChanged tells the workflow that the attempt's row changed. A workflow that is
// closed has no use for it.
func (r Runs) AttemptChanged(ctx context.Context, workflowID string, attempt int) error {
	err := r.Client.SignalWorkflow(ctx, workflowID, "", SignalAttemptChanged, AttemptChange{Attempt: attempt})
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return translate("signal the workflow", err)
}

func (r Runs) options(ref onejob.Reference) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:        onejob.WorkflowID(ref.Owner, ref.Key),
		TaskQueue: r.TaskQueue,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			AttributeOwner.ValueSet(ref.Owner), AttributeKind.ValueSet(ref.Kind),
			AttributeProvider.ValueSet(ref.Provider), AttributeStatus.ValueSet(string(onejob.StatusRunning))),
		StaticSummary: onejob.Shorten(fmt.Sprintf("%s · %s · %s", ref.Kind, ref.Provider, ref.Key), mostSummaryBytes),
		StaticDetails: fmt.Sprintf("Job `%s`: `onejob job get %s`", ref.JobID, ref.JobID),
	}
}

// mostSummaryBytes is what Temporal takes for a summary; the rest is for its encoding.
const mostSummaryBytes = 190

// translate turns what Temporal's client said into the errors of package onejob.
func translate(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if invalid, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok {
		return onejob.Errorf(onejob.CodeMisconfigured, "temporal refuses to %s: %w: if it speaks of search attributes, run 'onejob migrate up'", what, invalid)
	}
	if gone, ok := errors.AsType[*serviceerror.NamespaceNotFound](err); ok {
		return onejob.Errorf(onejob.CodeMisconfigured, "temporal has no namespace %q: create it, or set TEMPORAL_NAMESPACE", gone.Namespace)
	}
	if denied, ok := errors.AsType[*serviceerror.PermissionDenied](err); ok {
		return onejob.Errorf(onejob.CodeMisconfigured, "temporal does not let onejob %s: %w: check the credentials", what, denied)
	}
	return onejob.Errorf(onejob.CodeServerUnreachable, "temporal does not answer (%s): %w", what, err)
}
