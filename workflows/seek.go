package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// changeExits is the version from which a run looks for the outcomes of its unknown
// attempts. Runs that were unknown before replay as they were.
const changeExits = "exits"

// search is the search for the outcome of one unknown attempt.
type search struct {
	exits     activities.Exits
	listening bool                // when it began, the attempt's connection was open
	cancel    workflow.CancelFunc // nil: the search is over, or there is nothing to ask
}

func (s *search) String() string {
	way := "the provider is asked what became of it"
	switch {
	case s.exits.LookUp && s.exits.ReAsk:
		way += ", and once nobody listens asked again under the same key"
	case s.exits.ReAsk:
		way = "the provider is asked again under the same key"
	}
	return fmt.Sprintf("%s: first after %s, then less and less often, at last every %s (when next, say the heartbeat details of SeekOutcome)",
		way, time.Duration(s.exits.Interval), time.Duration(s.exits.MaxInterval))
}

// seek begins the search for the attempt's outcome, where there is somebody to ask. When
// the listening ends it begins anew: then more may be asked.
func (j *jobRun) seek(ctx workflow.Context, a onejob.Attempt) error {
	_, listening := j.underway[a.Number]
	if s := j.searches[a.Number]; s != nil && s.listening == listening {
		return nil
	}
	if workflow.GetVersion(ctx, changeExits, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return nil
	}
	j.endSearch(a.Number)
	var as *activities.Activities
	exits, err := durable[activities.Exits](ctx, "find the ways out of unknown", as.Exits, activities.ExitsInput{JobID: j.ref.JobID, Number: a.Number})
	if err != nil {
		return err
	}
	s := &search{exits: exits, listening: listening}
	j.searches[a.Number] = s
	if exits.LookUp || exits.ReAsk && !listening {
		j.launchSearch(ctx, a, s)
	}
	return nil
}

// launchSearch starts the search's activity.
func (j *jobRun) launchSearch(ctx workflow.Context, a onejob.Attempt, s *search) {
	searchCtx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, j.searchOptions(a)))
	s.cancel = cancel
	var as *activities.Activities
	report := workflow.ExecuteActivity(searchCtx, as.SeekOutcome, activities.SeekInput{
		JobID: j.ref.JobID, Number: a.Number, Provider: a.Provider, Exits: s.exits, Listening: s.listening, ListenFor: j.ref.ListenFor,
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := report.Get(ctx, nil)
		if s.cancel == nil {
			return // it was ended: the outcome came another way
		}
		s.cancel = nil
		if err != nil {
			workflow.GetLogger(ctx).Error("the search for an attempt's outcome failed", "job_id", j.ref.JobID, "attempt", a.Number, "error", err)
		}
		j.stale = true
	})
}

// longestSearch is when a search is handed to another worker, in case its own forgot it.
const longestSearch = 24 * time.Hour

func (j *jobRun) searchOptions(a onejob.Attempt) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: longestSearch,
		HeartbeatTimeout:    j.heartbeatTimeout,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute},
		Summary:             fmt.Sprintf("attempt %d · what became of it · %s", a.Number, a.Provider),
	}
}

// endSearches ends the searches for outcomes that are known.
func (j *jobRun) endSearches() {
	for _, number := range workflow.DeterministicKeys(j.searches) {
		if a, ok := j.progress.Attempt(number); ok && a.State != onejob.AttemptUnknown {
			j.endSearch(number)
		}
	}
}

func (j *jobRun) endSearch(number int) {
	if s := j.searches[number]; s != nil && s.cancel != nil {
		cancel := s.cancel
		s.cancel = nil
		cancel()
	}
	delete(j.searches, number)
}

// forgetEndedSearches lets those that are over begin anew: a configuration may have
// changed, or another worker have what this one lacked.
func (j *jobRun) forgetEndedSearches() {
	for _, number := range workflow.DeterministicKeys(j.searches) {
		if j.searches[number].cancel == nil {
			delete(j.searches, number)
		}
	}
}

// searching says that a search is under way.
func (j *jobRun) searching() bool {
	for _, number := range workflow.DeterministicKeys(j.searches) {
		if j.searches[number].cancel != nil {
			return true
		}
	}
	return false
}

// changeCancel is the version from which a cancel asks the provider first.
const changeCancel = "cancel-at-provider"

// cancelAtProvider asks the provider to give the attempt up before that is recorded: an
// attempt that turns out to be done has its outcome, and is not cancelled. A provider that
// does not answer holds up nothing.
func (j *jobRun) cancelAtProvider(ctx workflow.Context, d onejob.Decision) {
	if workflow.GetVersion(ctx, changeCancel, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 15 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                "ask the provider to give it up",
	})
	var a *activities.Activities
	if err := workflow.ExecuteActivity(ctx, a.CancelAtProvider, activities.CancelInput{JobID: j.ref.JobID, Number: d.Attempt}).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("the provider was not asked to give the attempt up", "job_id", j.ref.JobID, "attempt", d.Attempt, "error", err)
	}
}
