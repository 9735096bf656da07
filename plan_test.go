package onejob_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onejob/onejob"
)

// The attempts of a history, as short as a table needs them.
func retryable(provider string) onejob.Attempt {
	return onejob.Attempt{Provider: provider, State: onejob.AttemptFailed, Reason: onejob.ReasonNotSent, Retryable: true}
}

func retryableAfter(provider string, hint time.Duration) onejob.Attempt {
	a := retryable(provider)
	a.Reason, a.RetryAfter = onejob.ReasonRefused, onejob.Duration(hint)
	return a
}

func rejected(provider string) onejob.Attempt {
	return onejob.Attempt{Provider: provider, State: onejob.AttemptFailed, Reason: onejob.ReasonRejected}
}

func neverStarted(provider string) onejob.Attempt {
	a := retryable(provider)
	a.Reason = onejob.ReasonNeverStarted
	return a
}

func providerSilent(provider string) onejob.Attempt {
	a := retryable(provider)
	a.Reason = onejob.ReasonProviderSilent
	return a
}

func circuitOpen(provider string) onejob.Attempt {
	a := retryable(provider)
	a.Reason = onejob.ReasonCircuitOpen
	return a
}

func unknownProvider(provider string) onejob.Attempt {
	a := retryable(provider)
	a.Reason = onejob.ReasonUnknownProvider
	return a
}

func notCertified(provider string) onejob.Attempt {
	a := rejected(provider)
	a.Reason = onejob.ReasonNotCertified
	return a
}

func in(state onejob.AttemptState, provider string) onejob.Attempt {
	return onejob.Attempt{Provider: provider, State: state}
}

// history numbers the attempts and puts them under a running job.
func history(attempts ...onejob.Attempt) onejob.Progress {
	for i := range attempts {
		attempts[i].Number = i + 1
	}
	return onejob.Progress{Status: onejob.StatusRunning, Attempts: attempts}
}

func asked(provider string, p onejob.Progress) onejob.Progress {
	p.Requested = provider
	return p
}

func closed(status onejob.Status, p onejob.Progress) onejob.Progress {
	p.Status = status
	return p
}

func threeProviders(maxAttempts int) onejob.Plan {
	return onejob.Plan{JobID: "01", Providers: []string{"primary", "second", "third"}, MaxAttempts: maxAttempts}
}

func holding(p onejob.Plan) onejob.Plan {
	p.Hold = true
	return p
}

// certified is the progress of a run that has found a certificate.
func certified(provider string, p onejob.Progress) onejob.Progress {
	p.Certified = provider
	return p
}

func alone(maxAttempts int) onejob.Plan {
	return onejob.Plan{JobID: "01", Providers: []string{"primary"}, MaxAttempts: maxAttempts}
}

func hedgedAfter(d time.Duration, p onejob.Plan) onejob.Plan {
	p.HedgeAfter = d
	return p
}

func lane1(a onejob.Attempt) onejob.Attempt {
	a.Lane = 1
	return a
}

func TestPlanStartsOneHedgeBesideASilentAttempt(t *testing.T) {
	t.Parallel()
	silent := in(onejob.AttemptUnknown, "primary")
	for _, c := range []struct {
		why      string
		plan     onejob.Plan
		progress onejob.Progress
		want     string // the hedge's provider; empty: none
	}{
		{"the next fallback", hedgedAfter(time.Second, threeProviders(3)), history(silent), "second"},
		{"the provider itself where there is no fallback", hedgedAfter(time.Second, alone(3)), history(silent), "primary"},
		{"behind a failed one", hedgedAfter(time.Second, threeProviders(3)), history(rejected("primary"), in(onejob.AttemptStarting, "second")), "third"},
		{"not where the job allows none", threeProviders(3), history(silent), ""},
		{"not beside a hedge", hedgedAfter(time.Second, threeProviders(9)), history(silent, lane1(in(onejob.AttemptStarting, "second"))), ""},
		{"not a second time", hedgedAfter(time.Second, threeProviders(9)), history(silent, lane1(rejected("second"))), ""},
		{"not for the hedge", hedgedAfter(time.Second, threeProviders(9)), history(rejected("primary"), lane1(in(onejob.AttemptUnknown, "second"))), ""},
		{"not beyond the last try", hedgedAfter(time.Second, threeProviders(1)), history(silent), ""},
		{"not certified: the next fallback at once", hedgedAfter(time.Second, threeProviders(3)), history(silent, lane1(notCertified("second"))), "third"},
		{"nobody certified: the provider itself", hedgedAfter(time.Second, threeProviders(3)), history(silent, lane1(notCertified("second")), lane1(notCertified("third"))), "primary"},
		{"the provider itself, once", hedgedAfter(time.Second, threeProviders(9)),
			history(silent, lane1(notCertified("second")), lane1(notCertified("third")), lane1(rejected("primary"))), ""},
		{"the provider itself not certified any more", hedgedAfter(time.Second, threeProviders(9)),
			history(rejected("primary"), notCertified("second"), in(onejob.AttemptUnknown, "third"), lane1(notCertified("third"))), ""},
	} {
		step := c.plan.Next(c.progress)
		if step.Action != onejob.ActionWait {
			t.Errorf("%s: %+v, want a wait", c.why, step)
			continue
		}
		got := ""
		if step.Hedge != nil {
			got = step.Hedge.Provider
			after := time.Second
			if c.progress.Attempts[len(c.progress.Attempts)-1].Reason == onejob.ReasonNotCertified {
				after = 0
			}
			if step.Hedge.Lane != 1 || step.Hedge.After != after || step.Hedge.Number != len(c.progress.Attempts)+1 {
				t.Errorf("%s: the hedge is %+v", c.why, *step.Hedge)
			}
		}
		if got != c.want {
			t.Errorf("%s: the hedge goes to %q, want %q", c.why, got, c.want)
		}
	}
}

func TestRetriesOnAProviderComeToAnEnd(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	lasting := func(d time.Duration, attempts ...onejob.Attempt) onejob.Progress {
		p := history(attempts...)
		p.Attempts[0].StartedAt, p.Attempts[len(attempts)-1].FinishedAt = began, began.Add(d)
		return p
	}
	for _, c := range []struct {
		why      string
		plan     onejob.Plan
		progress onejob.Progress
		want     onejob.Action
	}{
		{"within three days", alone(1), lasting(72*time.Hour, providerSilent("primary"), providerSilent("primary")), onejob.ActionAttempt},
		{"its circuit open within three days", alone(1), lasting(72*time.Hour, circuitOpen("primary"), circuitOpen("primary")), onejob.ActionAttempt},
		{"after three days", alone(1), lasting(73*time.Hour, providerSilent("primary"), providerSilent("primary")), onejob.ActionFail},
		{"its circuit open after three days", alone(1), lasting(73*time.Hour, circuitOpen("primary"), circuitOpen("primary")), onejob.ActionFail},
		{"a fallback is left however long the primary was unknown", threeProviders(3), lasting(100*time.Hour, rejected("primary")), onejob.ActionAttempt},
		{"and after retries without end", threeProviders(3), lasting(100*time.Hour, retryable("primary"), retryable("primary")), onejob.ActionAttempt},
	} {
		if step := c.plan.Next(c.progress); step.Action != c.want {
			t.Errorf("%s: %+v, want %s", c.why, step, c.want)
		}
	}
}

func TestPlanDecidesOnEveryAnswer(t *testing.T) {
	t.Parallel()
	won := in(onejob.AttemptSucceeded, "primary")
	won.Decided = true
	progress := closed(onejob.StatusSucceeded, history(won, lane1(in(onejob.AttemptSucceeded, "second"))))
	if step := threeProviders(3).Next(progress); step.Action != onejob.ActionComplete || step.Number != 2 {
		t.Errorf("beside the winner: %+v, want the other answer decided on", step)
	}
}

func TestPlanNamesTheNextStep(t *testing.T) {
	t.Parallel()
	decided := in(onejob.AttemptSucceeded, "primary")
	decided.Decided, decided.Discarded = true, true
	for _, c := range []struct {
		why      string
		plan     onejob.Plan
		progress onejob.Progress
		want     onejob.Step // After is checked by the tests below
	}{
		{"nothing was tried: the primary", threeProviders(3), closed(onejob.StatusAccepted, history()), attempt(1, "primary", "primary")},
		{"without effect: the same provider again", threeProviders(3), history(retryable("primary")), attempt(2, "primary", "retry")},
		{"twice without effect: the fallback", threeProviders(3), history(retryable("primary"), retryable("primary")), attempt(3, "second", "fallback")},
		{"not called, for its silence to others: the fallback at once", threeProviders(3), history(providerSilent("primary")), attempt(2, "second", "fallback")},
		{"not called, its circuit is open: the fallback at once", threeProviders(3), history(circuitOpen("primary")), attempt(2, "second", "fallback")},
		{"not called and no fallback: the same provider, as often as it takes", alone(1), history(providerSilent("primary"), providerSilent("primary")), attempt(3, "primary", "retry")},
		{"its circuit is open and no fallback: the same provider, as often as it takes", alone(1), history(circuitOpen("primary"), circuitOpen("primary")), attempt(3, "primary", "retry")},
		{"a worker did not know the provider: another may", alone(1), history(unknownProvider("primary"), unknownProvider("primary")), attempt(3, "primary", "retry")},
		{"two workers did not know the provider: the fallback", threeProviders(3), history(unknownProvider("primary"), unknownProvider("primary")), attempt(3, "second", "fallback")},
		{"a final no: the fallback at once", threeProviders(3), history(rejected("primary")), attempt(2, "second", "fallback")},
		{"a retry that ends in a final no: the fallback", threeProviders(3), history(retryable("primary"), rejected("primary")), attempt(3, "second", "fallback")},
		{"the fallback is retried too", threeProviders(9), history(rejected("primary"), retryable("second")), attempt(3, "second", "retry")},
		{"the second fallback", threeProviders(3), history(rejected("primary"), rejected("second")), attempt(3, "third", "fallback")},
		{"a final no everywhere: fail", threeProviders(9), history(rejected("primary"), rejected("second"), rejected("third")), failed},
		{"every attempt used: fail", threeProviders(2), history(retryable("primary"), retryable("primary")), failed},
		{"nobody else: retry to the last attempt", alone(9), history(retryable("primary"), retryable("primary"), retryable("primary")), attempt(4, "primary", "retry")},
		{"a final no and nobody else: fail", alone(9), history(rejected("primary")), failed},
		{"one that never started uses up no attempt", alone(2), history(neverStarted("primary"), retryable("primary")), attempt(3, "primary", "retry")},
		{"the others are counted beside it", alone(2), history(neverStarted("primary"), retryable("primary"), retryable("primary")), failed},
		{"a hint above patience: the fallback", threeProviders(3), history(retryableAfter("primary", time.Hour)), attempt(2, "second", "fallback")},
		{"a hint above patience and nobody else: wait", alone(3), history(retryableAfter("primary", time.Hour)), attempt(2, "primary", "retry")},
		{"a hint of just the patience: wait", threeProviders(3), history(retryableAfter("primary", time.Minute)), attempt(2, "primary", "retry")},
		{"not certified: the next fallback", threeProviders(3), history(rejected("primary"), notCertified("second")), attempt(3, "third", "fallback")},
		{"not certified: it uses up no attempt", threeProviders(2), history(rejected("primary"), notCertified("second")), attempt(3, "third", "fallback")},
		{"nobody certified: fail", threeProviders(9), history(rejected("primary"), notCertified("second"), notCertified("third")), failed},
		{"nobody certified: what may be retried is", threeProviders(9), history(retryable("primary"), retryable("primary"), notCertified("second"), notCertified("third")), attempt(5, "primary", "retry")},
		{"nobody certified and every attempt used: fail", holding(threeProviders(1)), history(rejected("primary"), notCertified("second")), failed},
		{"nobody certified and the job may wait: hold", holding(threeProviders(9)), history(rejected("primary"), notCertified("second"), notCertified("third")),
			onejob.Step{Action: onejob.ActionHold, Number: 4, Provider: "second"}},
		{"a job that may wait fails where there is nobody to wait for", holding(threeProviders(9)), history(rejected("primary"), rejected("second"), rejected("third")), failed},
		{"a certificate was found: that fallback", holding(threeProviders(9)), certified("third", history(rejected("primary"), notCertified("second"), notCertified("third"))), attempt(4, "third", "fallback")},
		{"it is gone again: hold", holding(threeProviders(9)), history(rejected("primary"), notCertified("second"), notCertified("third"), notCertified("third")),
			onejob.Step{Action: onejob.ActionHold, Number: 5, Provider: "second"}},
		{"whoever was called since is not waited for", holding(threeProviders(9)), history(rejected("primary"), notCertified("second"), rejected("second")), attempt(4, "third", "fallback")},
		{"asked for: that provider first", threeProviders(3), asked("third", history(retryable("primary"))), attempt(2, "third", "requested")},
		{"asked for before any attempt", threeProviders(3), asked("second", history()), attempt(1, "second", "requested")},
		{"asked for beyond max_attempts", alone(1), asked("primary", history(rejected("primary"))), attempt(2, "primary", "requested")},
		{"asked for outside the plan", alone(1), asked("elsewhere", history(rejected("primary"))), attempt(2, "elsewhere", "requested")},
		{"asked for while one is unresolved: wait", alone(3), asked("primary", history(in(onejob.AttemptUnknown, "primary"))), wait(1, "primary")},
		{"cancelled: the next provider", threeProviders(3), history(in(onejob.AttemptCancelled, "primary")), attempt(2, "second", "fallback")},
		{"cancelled and nobody else: fail", alone(3), history(in(onejob.AttemptCancelled, "primary")), failed},
		{"starting: wait", threeProviders(3), history(rejected("primary"), in(onejob.AttemptStarting, "second")), wait(2, "second")},
		{"running: wait", threeProviders(3), history(in(onejob.AttemptRunning, "primary")), wait(1, "primary")},
		{"unknown: wait", threeProviders(3), closed(onejob.StatusUnknown, history(in(onejob.AttemptUnknown, "primary"))), wait(1, "primary")},
		{"a state we cannot read: wait", threeProviders(3), history(in("", "primary")), wait(1, "primary")},
		{"an undecided answer: complete", threeProviders(3), history(rejected("primary"), in(onejob.AttemptSucceeded, "second")), complete(2, "second")},
		{"an answer that was discarded: the next provider", threeProviders(3), history(decided), attempt(2, "second", "fallback")},
		{"succeeded: end", alone(3), closed(onejob.StatusSucceeded, history(decided)), ended},
		{"failed: end", threeProviders(3), closed(onejob.StatusFailed, history(retryable("primary"))), ended},
		{"cancelled job: end, also while an attempt is unknown", alone(3), closed(onejob.StatusCancelled, history(in(onejob.AttemptUnknown, "primary"))), ended},
	} {
		t.Run(c.why, func(t *testing.T) {
			got := c.plan.Next(c.progress)
			got.After = 0
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

var (
	failed = onejob.Step{Action: onejob.ActionFail}
	ended  = onejob.Step{Action: onejob.ActionEnd}
)

func attempt(number int, provider, role string) onejob.Step {
	return onejob.Step{Action: onejob.ActionAttempt, Number: number, Provider: provider, Role: role}
}

func wait(number int, provider string) onejob.Step {
	return onejob.Step{Action: onejob.ActionWait, Number: number, Provider: provider}
}

func complete(number int, provider string) onejob.Step {
	return onejob.Step{Action: onejob.ActionComplete, Number: number, Provider: provider}
}

func TestOnlyARetryWaits(t *testing.T) {
	t.Parallel()
	for why, progress := range map[string]onejob.Progress{
		"primary":            history(),
		"fallback":           history(rejected("primary")),
		"fallback by a hint": history(retryableAfter("primary", time.Hour)),
		"requested":          asked("primary", history(retryableAfter("primary", time.Hour))),
	} {
		if step := threeProviders(5).Next(progress); step.After != 0 {
			t.Errorf("%s waits %v", why, step.After)
		}
	}
}

func TestRetryHonoursTheHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why  string
		plan onejob.Plan
		hint time.Duration
	}{
		{"within patience", threeProviders(3), 30 * time.Second},
		{"whole, where nobody else can be asked", alone(3), 5 * time.Hour},
	} {
		if step := c.plan.Next(history(retryableAfter("primary", c.hint))); step.After != c.hint {
			t.Errorf("%s: waits %v, want %v", c.why, step.After, c.hint)
		}
	}
}

// TestBackoffDoublesUpToAMinute looks at many jobs: the longest wait of each retry
// must come close to its ceiling and never above it.
func TestBackoffDoublesUpToAMinute(t *testing.T) {
	t.Parallel()
	ceilings := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
	var attempts []onejob.Attempt
	for i, seconds := range ceilings {
		ceiling := seconds * time.Second
		attempts = append(attempts, retryable("primary"))
		if longest := longestWait(attempts); longest > ceiling || longest < ceiling*9/10 {
			t.Errorf("retry %d waits up to %v, want about %v", i+1, longest, ceiling)
		}
	}
}

func longestWait(attempts []onejob.Attempt) (longest time.Duration) {
	for job := range 500 {
		plan := onejob.Plan{JobID: string(rune('a' + job)), Providers: []string{"primary"}, MaxAttempts: 100}
		longest = max(longest, plan.Next(history(attempts...)).After)
	}
	return longest
}

// TestBackoffIsComputedNotDrawn pins the wait of one job: a workflow that is replayed
// must come to the same timer as the one that wrote its history.
func TestBackoffIsComputedNotDrawn(t *testing.T) {
	t.Parallel()
	if step := alone(9).Next(history(retryable("primary"), retryable("primary"))); step.After != 198*time.Millisecond {
		t.Errorf("the third attempt of job 01 waits %v", step.After)
	}
}

// TestPlanHolds plays random histories: whatever happened, an attempt never starts
// beside an unresolved one, its number is the next one, its provider is planned or
// was asked for, and the same history gives the same step.
func TestPlanHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := threeProviders(rapid.IntRange(1, 6).Draw(t, "max"))
		plan.Hold = rapid.Bool().Draw(t, "hold")
		progress := drawProgress(t)
		step := plan.Next(progress)
		if again := plan.Next(progress); again != step {
			t.Fatalf("not deterministic: %+v, then %+v", step, again)
		}
		if step.Action == onejob.ActionAttempt {
			checkAttempt(t, plan, progress, step)
		}
		if _, blocked := progress.Unresolved(); !blocked && !progress.Status.Closed() && step.Action != onejob.ActionAttempt && step.Action != onejob.ActionFail && !(plan.Hold && step.Action == onejob.ActionHold) {
			t.Fatalf("nothing is under way and the step is %+v", step)
		}
	})
}

func checkAttempt(t *rapid.T, plan onejob.Plan, progress onejob.Progress, step onejob.Step) {
	if a, ok := progress.Unresolved(); ok {
		t.Fatalf("starts %+v beside %+v", step, a)
	}
	if progress.Status.Closed() {
		t.Fatalf("starts %+v though the job is %s", step, progress.Status)
	}
	if step.Number != len(progress.Attempts)+1 {
		t.Fatalf("number %d behind %d attempts", step.Number, len(progress.Attempts))
	}
	if step.Provider == "" || step.After < 0 {
		t.Fatalf("%+v", step)
	}
	tried := 0
	for _, a := range progress.Attempts {
		if a.Reason != onejob.ReasonNeverStarted && a.Reason != onejob.ReasonNotCertified {
			tried++
		}
	}
	if progress.Requested == "" && tried >= max(plan.MaxAttempts, 1) {
		t.Fatalf("starts %+v after %d tries of %d", step, tried, plan.MaxAttempts)
	}
}

func drawProgress(t *rapid.T) onejob.Progress {
	return onejob.Progress{
		Status:    rapid.SampledFrom(onejob.Statuses()).Draw(t, "status"),
		Requested: rapid.SampledFrom([]string{"", "", "primary", "elsewhere"}).Draw(t, "requested"),
		Attempts:  history(rapid.SliceOfN(rapid.Custom(drawAttempt), 0, 8).Draw(t, "attempts")...).Attempts,
	}
}

// mostlyFailed weighs the states, so that histories get past their first attempt.
var mostlyFailed = slices.Repeat([]onejob.AttemptState{onejob.AttemptFailed}, 18)

func drawAttempt(t *rapid.T) onejob.Attempt {
	return onejob.Attempt{
		Provider:   rapid.SampledFrom([]string{"primary", "second", "third", "elsewhere"}).Draw(t, "provider"),
		State:      rapid.SampledFrom(slices.Concat(onejob.AttemptStates(), mostlyFailed)).Draw(t, "state"),
		Reason:     rapid.SampledFrom([]onejob.Reason{"", onejob.ReasonNotSent, onejob.ReasonNeverStarted, onejob.ReasonNotCertified, onejob.ReasonRejected}).Draw(t, "reason"),
		Retryable:  rapid.Bool().Draw(t, "retryable"),
		RetryAfter: rapid.SampledFrom([]onejob.Duration{0, 0, onejob.Duration(time.Second), onejob.Duration(2 * time.Hour)}).Draw(t, "hint"),
		Decided:    rapid.Bool().Draw(t, "decided"),
	}
}

// TestPlanComesToAnEnd plays a job whose every attempt fails: it ends within its
// attempts and asks the providers in their order.
func TestPlanComesToAnEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := threeProviders(rapid.IntRange(1, 8).Draw(t, "max"))
		progress, last := history(), -1
		for step := plan.Next(progress); step.Action == onejob.ActionAttempt; step = plan.Next(progress) {
			at := map[string]int{"primary": 0, "second": 1, "third": 2}[step.Provider]
			if at < last || at > last+1 {
				t.Fatalf("asks %s after %d attempts out of order", step.Provider, len(progress.Attempts))
			}
			last = at
			failure := rapid.SampledFrom([]onejob.Attempt{retryable(step.Provider), rejected(step.Provider), retryableAfter(step.Provider, time.Hour)})
			progress = history(append(progress.Attempts, failure.Draw(t, "failure"))...)
			if len(progress.Attempts) > plan.MaxAttempts {
				t.Fatalf("%d attempts of %d", len(progress.Attempts), plan.MaxAttempts)
			}
		}
	})
}

// TestJobWhoseFallbacksAreSkippedComesToAnEnd plays a job whose fallbacks have no
// certificates: each is named once, and the rest is as without them.
func TestJobWhoseFallbacksAreSkippedComesToAnEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := threeProviders(rapid.IntRange(1, 8).Draw(t, "max"))
		progress := history()
		for step := plan.Next(progress); step.Action == onejob.ActionAttempt; step = plan.Next(progress) {
			next := notCertified(step.Provider)
			if step.Provider == "primary" {
				next = rapid.SampledFrom([]onejob.Attempt{retryable("primary"), rejected("primary")}).Draw(t, "failure")
			}
			progress = history(append(progress.Attempts, next)...)
			if len(progress.Attempts) > plan.MaxAttempts+2 {
				t.Fatalf("%d attempts of %d and two that are skipped", len(progress.Attempts), plan.MaxAttempts)
			}
		}
	})
}

func TestAttemptsThatNeverStartedDoNotGiveUpOnAProvider(t *testing.T) {
	t.Parallel()
	plan := onejob.Plan{JobID: "j", Providers: []string{"a", "b"}, MaxAttempts: 3}
	progress := onejob.Progress{Status: onejob.StatusRunning}
	for n := range 4 {
		step := plan.Next(progress)
		if step.Action != onejob.ActionAttempt || step.Provider != "a" {
			t.Fatalf("after %d attempts that never started: %+v, want another on provider a", n, step)
		}
		progress.Attempts = append(progress.Attempts, onejob.Attempt{
			Number: step.Number, Provider: step.Provider, State: onejob.AttemptFailed, Reason: onejob.ReasonNeverStarted, Retryable: true,
		})
	}
}
