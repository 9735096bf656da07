package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
)

// Workflows are registered with a worker.
type Workflows struct {
	HeartbeatTimeout time.Duration // silence of a worker that makes its attempts unknown
	FirstLook        time.Duration // default a minute; when a run that hears nothing looks again, at first
}

// Job runs one job. Its input is a [onejob.Reference], or a whole [onejob.Request] when
// somebody starts it straight from Temporal; both as JSON.
//
// It returns the outcome of a job that succeeded or was cancelled. It fails with the
// application errors JobFailed, IdempotencyConflict, IdentityMismatch, InvalidRequest and
// BudgetExceeded.
func (w *Workflows) Job(ctx workflow.Context, input json.RawMessage) (onejob.Outcome, error) {
	j, ctx, err := w.open(ctx, input)
	for err == nil {
		switch step := j.next(); step.Action {
		case onejob.ActionAttempt:
			err = j.attempt(ctx, step)
		case onejob.ActionWait:
			err = j.wait(ctx, step)
		case onejob.ActionComplete:
			err = j.complete(ctx, step.Number)
		case onejob.ActionHold:
			err = j.hold(ctx)
		case onejob.ActionFail:
			err = j.fail(ctx)
		case onejob.ActionEnd:
			if err = j.settle(ctx); err == nil && !j.stale {
				return j.outcome()
			}
		case adoptRows:
			err = j.adopt(ctx)
		}
	}
	return onejob.Outcome{}, err
}

// adoptRows is the step before all others when the rows may be ahead of the run.
const adoptRows onejob.Action = "adopt"

// jobRun is one run of Job.
type jobRun struct {
	heartbeatTimeout time.Duration
	firstLook        time.Duration
	queue            string // the task queue of the run
	ref              onejob.Reference
	plan             onejob.Plan
	progress         onejob.Progress // as the rows were when last read, and this run's own attempts under way
	underway         map[int]workflow.CancelFunc
	searches         map[int]*search        // for the outcomes of unknown attempts, by number
	reported         map[int]onejob.Attempt // what this run's attempts told since the rows were last asked, by number
	notBefore        map[int]time.Time      // when a retry that waits may start, by its number
	hedgeAt          map[int]time.Time      // when a hedge is due, by its number

	fences   []postgres.Fence // attempts of ours that ended without telling their outcome
	stale    bool             // the rows may be ahead: read them
	landed   bool             // an attempt of ours told its outcome
	broken   error            // the database says that this run is not its job's
	deciding int              // decisions being recorded on behalf of signals
	signals  int              // decisions that came by signal so far
	looks    int              // times the slow timer fired in a row
	shown    onejob.Status    // what the search attribute says
	opened   bool             // ref is known, or openErr says why not
	openErr  error
	created  bool // this run registered the job, and nobody was told so yet
}

// next returns the run's next step.
func (j *jobRun) next() onejob.Step {
	if j.stale {
		return onejob.Step{Action: adoptRows}
	}
	j.landed = false // the progress has it
	return j.plan.Next(j.progress)
}

// attempt waits out a backoff, then starts the attempt and waits for news of it.
func (j *jobRun) attempt(ctx workflow.Context, step onejob.Step) error {
	if rested, err := j.rest(ctx, step); !rested || err != nil {
		return err
	}
	j.launch(ctx, step)
	if j.plan.HedgeAfter > 0 {
		return nil // to wait is the next step, for the hedge too
	}
	return j.awaitNews(ctx)
}

// awaitNews waits for news of an attempt under way.
func (j *jobRun) awaitNews(ctx workflow.Context) error {
	if err := workflow.Await(ctx, j.hasNews); err != nil {
		return err
	}
	return j.broken
}

// rest waits until the attempt may start. It returns false if something else came up.
func (j *jobRun) rest(ctx workflow.Context, step onejob.Step) (rested bool, err error) {
	if step.After == 0 {
		return true, nil
	}
	if _, ok := j.notBefore[step.Number]; !ok {
		j.notBefore[step.Number] = workflow.Now(ctx).Add(step.After)
	}
	left := j.notBefore[step.Number].Sub(workflow.Now(ctx))
	if left <= 0 {
		return true, nil
	}
	if j.shouldContinueAsNew(ctx) && workflow.GetVersion(ctx, changeRest, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		return false, workflow.NewContinueAsNewError(ctx, JobType, j.adopting())
	}
	workflow.SetCurrentDetails(ctx, j.restDetails(step))
	interrupted, err := workflow.AwaitWithTimeout(ctx, left, j.hasNews)
	return !interrupted, err
}

// changeRest is the version from which a run with a long history goes on as a new one
// before it rests.
const changeRest = "continue-at-rest"

// launch starts the attempt's activity. What becomes of it arrives in land.
func (j *jobRun) launch(ctx workflow.Context, step onejob.Step) {
	attemptCtx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, j.attemptOptions(step)))
	j.underway[step.Number] = cancel
	j.progress.Status, j.progress.Requested = onejob.StatusRunning, ""
	j.progress.Attempts = append(j.progress.Attempts, onejob.Attempt{Number: step.Number, Lane: step.Lane, Provider: step.Provider, State: onejob.AttemptStarting})
	var a *activities.Activities
	report := workflow.ExecuteActivity(attemptCtx, a.ExecuteAttempt, activities.AttemptInput{
		JobID: j.ref.JobID, Number: step.Number, Lane: step.Lane, Provider: step.Provider, Timeout: j.ref.Timeout, ListenFor: j.ref.ListenFor,
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		var r activities.AttemptReport
		err := report.Get(ctx, &r)
		j.land(step, r, err)
	})
}

// land takes in what the attempt's activity told, or that it told nothing.
func (j *jobRun) land(step onejob.Step, r activities.AttemptReport, err error) {
	delete(j.underway, step.Number)
	known := j.position(step.Number)
	switch {
	case known >= 0 && j.progress.Attempts[known].State.Final():
		return // resolved meanwhile
	case final(err):
		j.broken = err
	case err != nil:
		j.leaveQueue(step, err)
		j.fences = append(j.fences, postgres.Fence{Number: step.Number, Lane: step.Lane, Provider: step.Provider})
		j.stale = true
	case r.Adopt || known < 0 || r.Attempt.Number != step.Number || !slices.Contains(onejob.AttemptStates(), r.Attempt.State):
		j.stale = true
	default:
		j.reported[step.Number] = r.Attempt
		j.progress.Attempts[known] = r.Attempt
		j.landed = true
		j.endSearches()
	}
}

// leaveQueue lets the next attempt go where all others go, if this one waited in its
// provider's queue in vain: the provider may have no limits any more, and its queue no
// worker.
func (j *jobRun) leaveQueue(step onejob.Step, err error) {
	timeout, ok := errors.AsType[*temporal.TimeoutError](err)
	if ok && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
		j.ref.Limited = slices.DeleteFunc(j.ref.Limited, func(name string) bool { return name == step.Provider })
	}
}

func (j *jobRun) position(number int) int {
	return slices.IndexFunc(j.progress.Attempts, func(a onejob.Attempt) bool { return a.Number == number })
}

// listening returns the numbers of the attempts under way.
func (j *jobRun) listening() []int {
	return workflow.DeterministicKeys(j.underway)
}

func (j *jobRun) hasNews() bool { return j.landed || j.stale || j.broken != nil }

// wait waits for news of the attempts that are under way, or unknown. Of an unknown one
// the rows are read now and then, in case its news got lost.
func (j *jobRun) wait(ctx workflow.Context, step onejob.Step) error {
	unknown, err := j.showUnknown(ctx)
	if err != nil {
		return err
	}
	if unknown && j.shouldContinueAsNew(ctx) {
		return workflow.NewContinueAsNewError(ctx, JobType, j.adopting())
	}
	hedge := j.untilHedge(ctx, step.Hedge)
	switch {
	case hedge == 0:
		j.launch(ctx, *step.Hedge)
		return nil
	case unknown:
		return j.awaitNewsOrLook(ctx, hedge)
	case hedge > 0:
		_, err := workflow.AwaitWithTimeout(ctx, hedge, j.hasNews)
		return cmp.Or(err, j.broken)
	}
	return j.awaitNews(ctx)
}

// showUnknown shows the unknown attempts, and what is tried for them. An attempt that
// nobody listens to is made unknown by reading the rows.
func (j *jobRun) showUnknown(ctx workflow.Context) (unknown bool, err error) {
	var details []string
	for _, a := range j.progress.AllUnresolved() {
		if a.State != onejob.AttemptUnknown {
			_, ours := j.underway[a.Number]
			j.stale = j.stale || !ours
			continue
		}
		if err := j.show(ctx, onejob.StatusUnknown); err != nil {
			return true, err
		}
		if err := j.seek(ctx, a); err != nil {
			return true, err
		}
		details = append(details, j.unknownDetails(a))
	}
	if len(details) > 0 {
		workflow.SetCurrentDetails(ctx, strings.Join(details, "\n"))
	}
	return len(details) > 0, nil
}

// awaitNewsOrLook waits for news, until the hedge is due if it is above 0, and at most
// until the rows are to be read again.
func (j *jobRun) awaitNewsOrLook(ctx workflow.Context, hedge time.Duration) error {
	look := j.untilNextLook()
	if hedge > 0 {
		look = min(look, hedge)
	}
	news, err := workflow.AwaitWithTimeout(ctx, look, j.hasNews)
	switch {
	case news:
		j.looks = 0
	case look != hedge:
		j.looks++
		j.stale = true
		j.forgetEndedSearches()
	}
	return cmp.Or(err, j.broken)
}

// untilHedge returns how long it is until the hedge is due, 0: it is, -1: there is none.
func (j *jobRun) untilHedge(ctx workflow.Context, hedge *onejob.Step) time.Duration {
	if hedge == nil {
		return -1
	}
	if _, ok := j.hedgeAt[hedge.Number]; !ok {
		j.hedgeAt[hedge.Number] = workflow.Now(ctx).Add(hedge.After)
	}
	return max(0, j.hedgeAt[hedge.Number].Sub(workflow.Now(ctx)))
}

const (
	firstLook   = time.Minute
	longestLook = time.Hour
)

// untilNextLook returns how long the slow timer runs: a minute, or what the worker says,
// doubling up to an hour.
func (j *jobRun) untilNextLook() time.Duration {
	return min(j.firstLook<<min(j.looks, 6), longestLook)
}

// adopt brings the run up to the rows.
func (j *jobRun) adopt(ctx workflow.Context) error {
	var fence *postgres.Fence
	if len(j.fences) > 0 {
		fence, j.fences = &j.fences[0], j.fences[1:]
	}
	j.stale = len(j.fences) > 0
	clear(j.reported)
	var a *activities.Activities
	progress, err := durable[onejob.Progress](ctx, "read how far the job is", a.AdoptAttempts, postgres.Adoption{
		JobID: j.ref.JobID, WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID, Listening: j.listening(), Fence: fence,
	})
	if err != nil {
		return err
	}
	j.take(progress)
	return j.showProgress(ctx)
}

// complete lets the attempt's result win, or discards it.
func (j *jobRun) complete(ctx workflow.Context, number int) error {
	clear(j.reported)
	var a *activities.Activities
	progress, err := durable[onejob.Progress](ctx, "let one result win", a.CompleteJob, j.ref.JobID, number)
	j.take(progress)
	return err
}

// fail closes the job as failed, unless the rows have got ahead.
func (j *jobRun) fail(ctx workflow.Context) error {
	clear(j.reported)
	var a *activities.Activities
	progress, err := durable[onejob.Progress](ctx, "close the job as failed", a.FailJob, j.ref.JobID, j.progress.Version)
	j.take(progress)
	return err
}

// take replaces the progress by what the rows said when they were read. An attempt of
// this run may be ahead of that: it has no row yet, or has told its outcome while they
// were being read. What it told before, the rows bear out or it is not so. An attempt
// that the rows say is over is hung up.
func (j *jobRun) take(progress onejob.Progress) {
	before := j.progress
	j.progress = progress
	for i, a := range progress.Attempts {
		if told, ok := j.reported[a.Number]; ok && !a.State.Final() {
			progress.Attempts[i] = told
		}
	}
	for _, number := range j.listening() {
		a, ok := progress.Attempt(number)
		if !ok {
			a, _ = before.Attempt(number)
			j.progress.Attempts = append(j.progress.Attempts, a)
			slices.SortFunc(j.progress.Attempts, func(a, b onejob.Attempt) int { return cmp.Compare(a.Number, b.Number) })
		}
		if a.State.Final() {
			j.underway[number]()
		}
	}
	j.endSearches()
}

// settle waits until everybody who asked something got an answer. One of the answers
// may have reopened the job: then the rows are ahead.
func (j *jobRun) settle(ctx workflow.Context) error {
	if err := j.showEnd(ctx); err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return j.deciding == 0 && workflow.AllHandlersFinished(ctx) })
}

// outcome returns what a closed job's run returns.
func (j *jobRun) outcome() (onejob.Outcome, error) {
	if j.progress.Status == onejob.StatusFailed {
		return onejob.Outcome{}, jobFailed(j.ref.JobID, j.progress.Error)
	}
	return onejob.Outcome{JobID: j.ref.JobID, Status: j.progress.Status, CompletedBy: j.progress.CompletedBy}, nil
}
