// Package replay checks for tests that today's workflow code can replay a history.
package replay

import (
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob/workflows"
)

// History replays a run. A run of Job must know its own workflow ID, since one under
// another ID refuses to run: the history's first event tells it.
func History(history *historypb.History) error {
	replayer := worker.NewWorkflowReplayer()
	runs := &workflows.Workflows{HeartbeatTimeout: time.Second}
	replayer.RegisterWorkflowWithOptions(runs.Job, workflow.RegisterOptions{Name: workflows.JobType})
	replayer.RegisterWorkflowWithOptions(runs.UsageRebuild, workflow.RegisterOptions{Name: workflows.UsageRebuildType})
	replayer.RegisterWorkflowWithOptions(runs.Audit, workflow.RegisterOptions{Name: workflows.AuditType})
	replayer.RegisterWorkflowWithOptions(runs.Certification, workflow.RegisterOptions{Name: workflows.CertificationType})
	replayer.RegisterWorkflowWithOptions(runs.CertificationRenewal, workflow.RegisterOptions{Name: workflows.CertificationRenewalType})
	id := history.Events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowId()
	return replayer.ReplayWorkflowHistoryWithOptions(nil, history, worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: id}})
}
