package workflows

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
)

// Certification runs a contract against a model of a provider: one activity for each call, which
// is made once, whatever becomes of this run or of the worker. It ends early when a case can no
// longer have as many answers as must pass; what was asked by then is in the report. A
// cancellation makes no more calls and ends the run as cancelled.
func (w *Workflows) Certification(ctx workflow.Context, in activities.CertificationInput) (outcome activities.CertificationOutcome, err error) {
	c := certification{in: in, heartbeatTimeout: w.HeartbeatTimeout, missing: map[string]int{}}
	if err := c.begin(ctx); err != nil {
		return outcome, err
	}
	c.showProgress(ctx)
	if err := c.makeCalls(ctx); err != nil && !temporal.IsCanceledError(err) {
		return outcome, err
	}
	if next := workflow.GetInfo(ctx); ctx.Err() == nil && c.interrupted {
		c.show(ctx, "goes on in the next run")
		return outcome, workflow.NewContinueAsNewError(ctx, next.WorkflowType.Name, in)
	}
	return c.finish(ctx)
}

// certification is the state of one run of Certification.
type certification struct {
	in               activities.CertificationInput
	plan             activities.CertificationPlan
	heartbeatTimeout time.Duration

	next        int            // of the planned calls
	done        int            // calls that have an outcome
	found       int            // findings so far
	missing     map[string]int // calls without an answer, by case
	stopped     bool           // a case cannot pass any more
	interrupted bool           // the history is long enough: the next run goes on
}

// CertificationProgress is how far a run is, for the query of that name.
type CertificationProgress struct {
	RunID    string `json:"run_id"`
	Calls    int    `json:"calls"`
	Done     int    `json:"done"`
	Findings int    `json:"findings"`
}

func (c *certification) begin(ctx workflow.Context) error {
	var a *activities.Activities
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: preparationTime, HeartbeatTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second},
		Summary:     "render the prompts and set the cost aside",
	}), a.BeginCertification, c.in).Get(ctx, &c.plan)
	if err != nil {
		return err
	}
	c.done = c.plan.Preparation.Calls() - len(c.plan.Calls)
	return workflow.SetQueryHandlerWithOptions(ctx, QueryCertification, func() (CertificationProgress, error) {
		return CertificationProgress{RunID: c.in.RunID, Calls: c.plan.Preparation.Calls(), Done: c.done, Findings: c.found}, nil
	}, workflow.QueryHandlerOptions{Description: "how far the certification is"})
}

// preparationTime is what counting the prompts at a vendor's server gets.
const preparationTime = 10 * time.Minute

// makeCalls makes the planned calls, several at once.
func (c *certification) makeCalls(ctx workflow.Context) (err error) {
	lanes := workflow.NewWaitGroup(ctx)
	for range min(c.plan.AtOnce, len(c.plan.Calls)) {
		lanes.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer lanes.Done()
			for c.goesOn(ctx) {
				call := c.plan.Calls[c.next]
				c.next++
				if failure := c.makeCall(ctx, call); failure != nil {
					err, c.stopped = errors.Join(err, failure), true
				}
			}
		})
	}
	lanes.Wait(ctx)
	return err
}

func (c *certification) goesOn(ctx workflow.Context) bool {
	if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		c.interrupted = true
	}
	return ctx.Err() == nil && !c.stopped && !c.interrupted && c.next < len(c.plan.Calls)
}

// makeCall makes a call, and tries it again where the provider refused it for a moment.
func (c *certification) makeCall(ctx workflow.Context, call activities.PlannedCall) error {
	for {
		report, err := c.tryCall(ctx, call)
		if err != nil {
			return err
		}
		if report.Retryable && call.Try < mostCallTries && ctx.Err() == nil && !c.stopped {
			call.Try++
			if err := workflow.Sleep(ctx, min(max(time.Duration(report.RetryAfter), firstCallPause<<call.Try), longestCallPause)); err != nil {
				return err
			}
			continue
		}
		c.count(ctx, call, report)
		return nil
	}
}

const (
	mostCallTries    = 3
	firstCallPause   = 500 * time.Millisecond
	longestCallPause = 2 * time.Minute
)

// tryCall runs the activity of the call once. One whose execution was lost is closed: it may have
// reached the provider, so it is not made again.
func (c *certification) tryCall(ctx workflow.Context, call activities.PlannedCall) (report activities.CertificationCallReport, err error) {
	var a *activities.Activities
	question, _ := c.plan.Preparation.Question(call.Case)
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, c.callOptions(ctx, call)), a.CertificationCall, activities.CertificationCallInput{
		ContractSHA256: c.in.ContractSHA256, Provider: c.in.Provider, Question: question, Call: call, ListenFor: c.plan.ListenFor,
	}).Get(ctx, &report)
	if err == nil || temporal.IsCanceledError(err) || ctx.Err() != nil {
		return report, nil
	}
	closed := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 30 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second},
		Summary:             fmt.Sprintf("close call %d of %d, whose worker was lost", call.Number, call.OutOf),
	})
	err = workflow.ExecuteActivity(closed, a.FenceCertificationCall, call.CertificationCall).Get(ctx, &report.State)
	report.Retryable = report.State == postgres.CallFailed // it was never made
	return report, err
}

func (c *certification) callOptions(ctx workflow.Context, call activities.PlannedCall) workflow.ActivityOptions {
	name := call.Case
	if name == "" {
		name = "canary"
	}
	options := workflow.ActivityOptions{
		StartToCloseTimeout: time.Duration(c.plan.ListenFor) + recordMargin,
		HeartbeatTimeout:    c.heartbeatTimeout,
		WaitForCancellation: true, // what it learned is recorded before the run ends
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:             onejob.Shorten(fmt.Sprintf("call %d of %d · %s · run %d", call.Number, call.OutOf, name, call.Repeat), mostSummaryBytes),
	}
	if c.plan.Limited {
		options.TaskQueue, options.ScheduleToStartTimeout = ProviderQueue(workflow.GetInfo(ctx).TaskQueueName, c.in.Provider), longestQueueing
	}
	return options
}

// count counts what became of a call, and stops the run when its case cannot pass any more.
func (c *certification) count(ctx workflow.Context, call activities.PlannedCall, report activities.CertificationCallReport) {
	c.done++
	c.found += report.Findings
	if report.State != postgres.CallAnswered && report.Findings == 0 {
		c.missing[call.Case]++
		c.stopped = c.stopped || c.missing[call.Case] > call.Spare
	}
	c.showProgress(ctx)
}

// finish ends the run, also one that is being cancelled.
func (c *certification) finish(ctx workflow.Context) (outcome activities.CertificationOutcome, err error) {
	cancelled := ctx.Err() != nil
	ctx, done := workflow.NewDisconnectedContext(ctx)
	defer done()
	var a *activities.Activities
	in := activities.CertificationFinish{CertificationInput: c.in, Preparation: c.plan.Preparation, Cancelled: cancelled}
	err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Minute,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 30 * time.Second},
		Summary:     "write the report",
	}), a.FinishCertification, in).Get(ctx, &outcome)
	if err != nil {
		return outcome, err
	}
	c.show(ctx, string(outcome.State)+"\n\n"+outcome.Summary)
	if cancelled {
		return outcome, temporal.NewCanceledError(outcome)
	}
	return outcome, nil
}

func (c *certification) showProgress(ctx workflow.Context) {
	c.show(ctx, fmt.Sprintf("%d of %d calls are done, %d findings", c.done, c.plan.Preparation.Calls(), c.found))
}

// show says in the Web UI how far the run is.
func (c *certification) show(ctx workflow.Context, says string) {
	workflow.SetCurrentDetails(ctx, fmt.Sprintf("**%s** on **%s**: %s\n\nContract `%s`, certification `%s`. Cancel the workflow to make no more calls.",
		c.plan.Contract, c.in.Provider, says, c.in.ContractSHA256, c.in.RunID))
}
