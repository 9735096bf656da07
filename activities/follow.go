package activities

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// follow waits for the outcome of a call that the provider took under a reference: it
// looks the call up where that is possible, else the outcome comes by callback, and what
// is left to do here is to be silent until ctx ends.
func (e *execution) follow(ctx context.Context, reference string) provider.Answer {
	awaited := provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonAwaitingAnswer, Reference: reference}
	late, err := retried(ctx, logOf(e.Logger, e.in.JobID, e.in.Number), func(ctx context.Context) (bool, error) {
		return e.Store.MarkRunningIfStarting(ctx, e.in.JobID, e.in.Number, reference)
	})
	if err != nil {
		return awaited
	}
	if late {
		e.tell() // the workflow looks for the ways out again
	}
	q := provider.Question{JobID: e.in.JobID, Attempt: e.in.Number, IdempotencyKey: idempotencyKey(e.in.JobID, e.in.Number), Reference: reference}
	looker, policy := lookUpper(e.provider)
	if policy == nil || !looker.CanLookUp(q) {
		<-ctx.Done()
		return awaited
	}
	began := time.Now()
	pause := newPause(policy.Interval, policy.MaxInterval)
	for wait := pause.draw(); rest(ctx, wait); {
		q.Age = time.Since(began)
		answer := e.lookUp(ctx, looker, q)
		if final(answer) {
			answer.Reference = reference
			return answer
		}
		wait = max(pause.draw(), answer.RetryAfter)
	}
	return awaited
}

// What one question to a provider gets.
const (
	lookUpTimeout = 30 * time.Second
	cancelTimeout = 5 * time.Second
)

// lookUp asks once.
func (a *Activities) lookUp(ctx context.Context, looker provider.LookUpper, q provider.Question) (answer provider.Answer) {
	defer a.recoverAdapter(q.JobID, q.Attempt, &answer)
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	return looker.LookUp(ctx, q).Checked(a.Catalog.Limits)
}

// final says that the answer is the outcome of its call.
func final(answer provider.Answer) bool {
	return answer.Certainty == provider.Succeeded || answer.Certainty == provider.Failed
}

// pause is the wait between two questions: it doubles up to its longest, and is drawn from
// the upper half, so that many who fell silent together do not ask together.
type pause struct{ next, longest time.Duration }

func newPause(first, longest time.Duration) *pause { return &pause{next: first, longest: longest} }

// draw returns how long to wait now.
func (p *pause) draw() time.Duration {
	wait := p.next/2 + rand.N(p.next/2+1)
	p.next = min(2*p.next, p.longest)
	return wait
}

// wait returns false if ctx ended.
func (p *pause) wait(ctx context.Context) bool { return rest(ctx, p.draw()) }

func rest(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
