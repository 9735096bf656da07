package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
)

// view answers the query job.
func (j *jobRun) view() (onejob.View, error) {
	if !j.opened {
		return onejob.View{}, errors.New("the run does not know its job yet: ask again")
	}
	if j.openErr != nil {
		return onejob.View{}, j.openErr
	}
	return onejob.View{
		JobID: j.ref.JobID, WorkflowID: onejob.WorkflowID(j.ref.Owner, j.ref.Key), Status: j.status(),
		Owner: j.ref.Owner, Key: j.ref.Key, Kind: j.ref.Kind, Provider: j.ref.Provider,
		Fallbacks: append([]string{}, j.ref.Fallbacks...), Version: j.progress.Version, CompletedBy: j.progress.CompletedBy,
		Error: j.progress.Error, Attempts: append([]onejob.Attempt{}, j.progress.Attempts...),
	}, nil
}

func (j *jobRun) status() onejob.Status {
	if j.progress.Status == "" {
		return onejob.StatusAccepted
	}
	return j.progress.Status
}

// show lets the search attribute follow, once a job has left the straight path.
func (j *jobRun) show(ctx workflow.Context, status onejob.Status) error {
	if status == j.shown {
		return nil
	}
	j.shown = status
	return workflow.UpsertTypedSearchAttributes(ctx, AttributeStatus.ValueSet(string(status)))
}

// showProgress shows what the rows said, except an end, which showEnd shows.
func (j *jobRun) showProgress(ctx workflow.Context) error {
	if j.progress.Status.Closed() || j.progress.Status == onejob.StatusAccepted {
		return nil
	}
	return j.show(ctx, j.progress.Status)
}

// showEnd shows the outcome. A job that went straight to its result is left as it is.
func (j *jobRun) showEnd(ctx workflow.Context) error {
	if !j.progress.Status.Closed() {
		return nil
	}
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("The job is **%s**.", j.progress.Status))
	if j.progress.Status == onejob.StatusSucceeded && j.shown == onejob.StatusRunning && len(j.progress.Attempts) == 1 {
		return nil
	}
	return j.show(ctx, j.progress.Status)
}

func (j *jobRun) unknownDetails(a onejob.Attempt) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**Attempt %d on %s is unknown** (%s): its request may have reached the provider, so nothing else starts before its outcome is known.\n\n", a.Number, a.Provider, a.Reason)
	b.WriteString("Being tried:\n\n")
	for _, way := range j.exitsBeingTried(a.Number) {
		fmt.Fprintf(&b, "- %s\n", way)
	}
	fmt.Fprintf(&b, "\nYours to use:\n\n- give it up: signal `%s`, or `onejob attempt cancel %s %d --reason …`\n- say what became of it: `onejob attempt resolve %s %d --as failed|succeeded`\n",
		SignalCancelAttempt, j.ref.JobID, a.Number, j.ref.JobID, a.Number)
	return b.String()
}

// exitsBeingTried tells people which ways out of unknown the attempt's outcome may come.
func (j *jobRun) exitsBeingTried(number int) (ways []string) {
	if _, listens := j.underway[number]; listens {
		ways = append(ways, fmt.Sprintf("a worker listens for the late answer, up to %s after the start", time.Duration(j.ref.ListenFor)))
	}
	if s := j.searches[number]; s != nil && s.cancel != nil {
		ways = append(ways, s.String())
	}
	if s := j.searches[number]; s != nil && s.exits.Callback {
		ways = append(ways, "the provider may call back")
	}
	if len(ways) == 0 {
		ways = append(ways, "nothing: nobody listens any more, and the provider cannot be asked")
	}
	return ways
}

func (j *jobRun) restDetails(step onejob.Step) string {
	return fmt.Sprintf("Attempt %d (%s) on %s starts at %s.", step.Number, step.Role, step.Provider, j.notBefore[step.Number].UTC().Format(time.RFC3339))
}

// shouldContinueAsNew says that the history is long and nothing hangs on this run.
func (j *jobRun) shouldContinueAsNew(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() && len(j.underway) == 0 && !j.searching() && j.deciding == 0 && workflow.AllHandlersFinished(ctx)
}
