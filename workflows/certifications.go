package workflows

import (
	"cmp"
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// certificationAttributes are by what a list of workflows finds a certification.
func certificationAttributes(kind, provider string) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(AttributeOwner.ValueSet(onejob.CertificationOwner), AttributeKind.ValueSet(kind), AttributeProvider.ValueSet(provider))
}

// memoRunID is the memo that names the run in Postgres.
const memoRunID = "run_id"

// Certifications starts and watches certifications. It may be used concurrently.
type Certifications struct {
	Client    client.Client
	TaskQueue string // default [TaskQueue]
}

// Start starts the certification, unless one of the same contract and provider is under way. It
// returns the id of the run that is under way then, and whether this call started it. It fails
// with [onejob.ErrServerUnreachable] and [onejob.ErrMisconfigured].
func (c Certifications) Start(ctx context.Context, in activities.CertificationInput, kind string) (runID string, started bool, err error) {
	id := onejob.CertificationWorkflowID(in.ContractSHA256, in.Provider)
	_, err = c.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: cmp.Or(c.TaskQueue, TaskQueue),
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{memoRunID: in.RunID},
		TypedSearchAttributes:                    certificationAttributes(kind, in.Provider),
		StaticSummary:                            onejob.Shorten(fmt.Sprintf("certify %s for %s", in.Provider, kind), mostSummaryBytes),
		StaticDetails:                            fmt.Sprintf("Contract `%s`, certification `%s`: `onejob contract list` prints the certificates", in.ContractSHA256, in.RunID),
	}, CertificationType, in)
	if !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return in.RunID, err == nil, translate("start the certification", err)
	}
	there, err := c.Client.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return "", false, translate("read the certification", err)
	}
	err = converter.GetDefaultDataConverter().FromPayload(there.RawResponse.GetWorkflowExecutionInfo().GetMemo().GetFields()[memoRunID], &runID)
	return runID, false, translate("read the certification", err)
}

// Await waits until the certification of the contract and the provider has ended. It fails with
// what kept the run from being made, such as [onejob.ErrBudgetExceeded], and with
// [onejob.ErrServerUnreachable].
func (c Certifications) Await(ctx context.Context, contractSHA256, provider string) (outcome activities.CertificationOutcome, err error) {
	err = c.Client.GetWorkflow(ctx, onejob.CertificationWorkflowID(contractSHA256, provider), "").Get(ctx, &outcome)
	if temporal.IsCanceledError(err) && ctx.Err() == nil {
		return outcome, nil // its row says so
	}
	if told := activities.FromTemporal(err); onejob.CodeOf(told) != "" {
		return outcome, told
	}
	return outcome, translate("wait for the certification", err)
}
