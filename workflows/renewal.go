package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// CertificationRenewal starts a certification for each certificate that expires soon. The runs go
// on by themselves; one of the same contract and provider that is under way is enough.
func (w *Workflows) CertificationRenewal(ctx workflow.Context) (renewals activities.Renewals, err error) {
	var a *activities.Activities
	if err := runLong(ctx, "look which certificates expire", a.RenewalsDue, &renewals); err != nil {
		return renewals, err
	}
	for _, due := range renewals.Due {
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            onejob.CertificationWorkflowID(due.ContractSHA256, due.Provider),
			ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
			Memo:                  map[string]any{memoRunID: due.RunID},
			TypedSearchAttributes: certificationAttributes(due.Contract, due.Provider),
			StaticSummary:         onejob.Shorten(fmt.Sprintf("renew the certificate of %s for %s", due.Provider, due.Contract), mostSummaryBytes),
		})
		err := workflow.ExecuteChildWorkflow(child, CertificationType, due.CertificationInput).GetChildWorkflowExecution().Get(ctx, nil)
		if err != nil && !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return renewals, err
		}
	}
	return renewals, nil
}
