package onejob

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// Plan is what a job may try, in order.
type Plan struct {
	JobID       string
	Providers   []string // the primary, then the fallbacks
	MaxAttempts int
	HedgeAfter  time.Duration // silence of the only attempt after which a second one starts; 0: never
	Hold        bool          // with no certified provider left the job waits for a certificate, or somebody; false: it fails
}

// Plan returns the plan of the referenced job.
func (r Reference) Plan() Plan {
	return Plan{JobID: r.JobID, Providers: slices.Concat([]string{r.Provider}, r.Fallbacks), MaxAttempts: r.MaxAttempts, HedgeAfter: time.Duration(r.HedgeAfter), Hold: r.Hold}
}

// Action is what a step does.
type Action string

// The actions.
const (
	ActionAttempt  Action = "attempt"  // start the attempt
	ActionWait     Action = "wait"     // an attempt is unresolved: wait for its outcome
	ActionComplete Action = "complete" // an answer is in hand: let it win or be discarded
	ActionHold     Action = "hold"     // all that is left has no certificate: wait for one, or for somebody
	ActionFail     Action = "fail"     // nothing is left to try
	ActionEnd      Action = "end"      // the job has its outcome
)

// Step is the next thing to do for a job.
type Step struct {
	Action   Action
	Number   int           // the attempt's
	Provider string        // the attempt's
	After    time.Duration // how long to wait before the attempt starts
	Role     string        // what the attempt is in the plan: primary, fallback, retry, requested, hedge
	Lane     int           // the attempt's
	Hedge    *Step         // of a wait: the attempt to start beside the one that is silent, After its start
}

// Retry policy of attempts that failed without effect.
const (
	triesPerProvider = 2           // before the next provider, while there is one
	firstBackoff     = time.Second // doubles with each retry
	longestBackoff   = time.Minute
	patience         = time.Minute    // a longer hint sends the job to the next provider, if there is one
	retryBudget      = 72 * time.Hour // of a provider: attempts that called nobody do not count, and must not go on for ever
)

// Next returns the job's next step. It depends on nothing but its arguments, so a new
// run of the workflow goes on exactly where the rows say the last one stopped.
func (p Plan) Next(progress Progress) Step {
	if a, ok := progress.undecided(); ok {
		return Step{Action: ActionComplete, Number: a.Number, Provider: a.Provider}
	}
	if progress.Status.Closed() {
		return Step{Action: ActionEnd}
	}
	if blocking := progress.AllUnresolved(); len(blocking) > 0 {
		return p.wait(progress, blocking)
	}
	next := Step{Action: ActionAttempt, Number: 1}
	if n := len(progress.Attempts); n > 0 {
		next.Number = progress.Attempts[n-1].Number + 1
	}
	switch {
	case progress.Requested != "":
		next.Provider, next.Role = progress.Requested, "requested"
	case len(progress.Attempts) == 0:
		next.Provider, next.Role = p.Providers[0], "primary"
	default:
		return p.afterFailure(progress, next)
	}
	return next
}

// wait plans what to do while attempts are unresolved.
func (p Plan) wait(progress Progress, blocking []Attempt) Step {
	only := blocking[0]
	step := Step{Action: ActionWait, Number: only.Number, Provider: only.Provider}
	if p.HedgeAfter > 0 && only.Lane == 0 && countTries(progress.Attempts) < p.MaxAttempts {
		step.Hedge = p.hedge(progress.Attempts, only)
	}
	return step
}

// hedge plans the attempt beside the silent one: on the next fallback, or on the silent
// provider itself if there is none. It returns nil if there was a hedge, or nobody is left
// who has a certificate.
func (p Plan) hedge(attempts []Attempt, silent Attempt) *Step {
	skipped := attempts[slices.IndexFunc(attempts, func(a Attempt) bool { return a.Number == silent.Number })+1:]
	provider, ok := p.fallback(attempts)
	if !ok {
		provider = silent.Provider
	}
	if slices.ContainsFunc(skipped, func(a Attempt) bool { return a.Reason != ReasonNotCertified || a.Provider == provider }) {
		return nil
	}
	hedge := &Step{Action: ActionAttempt, Number: attempts[len(attempts)-1].Number + 1, Provider: provider, Role: "hedge", Lane: 1}
	if len(skipped) == 0 {
		hedge.After = p.HedgeAfter
	}
	return hedge
}

// afterFailure plans the attempt behind one that failed or was cancelled. Providers that
// were skipped, since they have no certificate, leave it to what was tried before them.
func (p Plan) afterFailure(progress Progress, next Step) Step {
	attempts := progress.Attempts
	tried := slices.DeleteFunc(slices.Clone(attempts), func(a Attempt) bool { return a.Reason == ReasonNotCertified })
	if countTries(attempts) >= p.MaxAttempts {
		return Step{Action: ActionFail}
	}
	fallback, hasFallback := p.fallback(attempts)
	if len(tried) == 0 {
		tried = attempts
	}
	last := tried[len(tried)-1]
	hint := time.Duration(last.RetryAfter)
	failures := trailingRetryable(tried)
	mayRetry := !slices.Contains(uncallable, last.Reason) && hint <= patience && countHandedOver(failures) < triesPerProvider
	if last.Retryable && (mayRetry || !hasFallback) && spent(failures) <= retryBudget {
		next.Provider, next.Role = last.Provider, "retry"
		next.After = max(hint, p.backoff(next.Number, len(failures)))
		return next
	}
	if !hasFallback {
		return p.withoutFallback(progress, next)
	}
	next.Provider, next.Role = fallback, "fallback"
	return next
}

// withoutFallback plans what to do when every provider was tried or skipped.
func (p Plan) withoutFallback(progress Progress, next Step) Step {
	skipped := p.Skipped(progress)
	switch {
	case !p.Hold || len(skipped) == 0:
		return Step{Action: ActionFail}
	case slices.Contains(skipped, progress.Certified):
		next.Provider, next.Role = progress.Certified, "fallback"
		return next
	}
	return Step{Action: ActionHold, Number: next.Number, Provider: skipped[0]}
}

// Skipped returns the fallbacks that were not called since they had no certificate, in
// their order. They are what a job that holds waits for.
func (p Plan) Skipped(progress Progress) (skipped []string) {
	for _, name := range p.Providers {
		var last Attempt
		for _, a := range progress.Attempts {
			if a.Provider == name {
				last = a
			}
		}
		if last.Reason == ReasonNotCertified {
			skipped = append(skipped, name)
		}
	}
	return skipped
}

// fallback returns the first provider behind the last planned one that was tried.
func (p Plan) fallback(attempts []Attempt) (string, bool) {
	tried := -1
	for _, a := range attempts {
		tried = max(tried, slices.Index(p.Providers, a.Provider))
	}
	if tried+1 >= len(p.Providers) {
		return "", false
	}
	return p.Providers[tried+1], true
}

// calledNobody are the reasons of attempts for which no provider was called at all: not by
// its own fault, nor that of the network.
var calledNobody = append([]Reason{ReasonNeverStarted, ReasonUnknownProvider, ReasonNotCertified}, uncallable...)

// uncallable are the reasons by which a provider is not called for now: the job does not
// wait for it while there is another.
var uncallable = []Reason{ReasonProviderSilent, ReasonCircuitOpen}

// countTries counts the attempts against MaxAttempts. One that called nobody tried
// nothing.
func countTries(attempts []Attempt) (n int) {
	for _, a := range attempts {
		if !slices.Contains(calledNobody, a.Reason) {
			n++
		}
	}
	return n
}

// countHandedOver counts the attempts that a worker took up.
func countHandedOver(attempts []Attempt) (n int) {
	for _, a := range attempts {
		if a.Reason != ReasonNeverStarted {
			n++
		}
	}
	return n
}

// spent returns the time from the start of the first attempt to the end of the last one.
func spent(attempts []Attempt) time.Duration {
	if len(attempts) == 0 {
		return 0
	}
	return attempts[len(attempts)-1].FinishedAt.Sub(attempts[0].StartedAt)
}

// trailingRetryable returns the retryable failures at the end, all on one provider.
func trailingRetryable(attempts []Attempt) []Attempt {
	last := attempts[len(attempts)-1]
	first := len(attempts)
	for first > 0 && attempts[first-1].Retryable && attempts[first-1].Provider == last.Provider {
		first--
	}
	return attempts[first:]
}

// backoff returns the wait before a retry: exponential with full jitter. The jitter
// comes from the job and the number, so that a replay computes the same.
func (p Plan) backoff(number, failures int) time.Duration {
	ceiling := longestBackoff
	if shift := failures - 1; shift < 6 {
		ceiling = min(ceiling, firstBackoff<<max(0, shift))
	}
	h := fnv.New64a()
	fmt.Fprint(h, p.JobID)
	_ = binary.Write(h, binary.BigEndian, int64(number)) // a hash takes every write
	return time.Duration(h.Sum64() % uint64(ceiling)).Truncate(time.Millisecond)
}
