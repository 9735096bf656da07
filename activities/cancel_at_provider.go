package activities

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// CancelInput is the attempt that shall be given up; number 0: the unresolved one.
type CancelInput struct {
	JobID  string `json:"job_id"`
	Number int    `json:"number"`
}

// CancelAtProvider asks the attempt's provider to give the call up, where it can be
// asked, and keeps what it said. A provider that refuses, since the call is done already,
// is looked up once: what it says then is the attempt's outcome, and nothing is left to
// cancel. It may be repeated.
func (a *Activities) CancelAtProvider(ctx context.Context, in CancelInput) error {
	sought, err := a.liveAttempt(ctx, in)
	if err != nil || sought.Number == 0 {
		return TemporalError(err)
	}
	verdict, p, err := a.askToCancel(ctx, in.JobID, sought)
	if err != nil || verdict != provider.CancelRefused {
		return TemporalError(err)
	}
	return TemporalError(a.lookUpOnce(ctx, p, in.JobID, sought))
}

// cancelGivenUp asks the provider of an attempt that was given up already, unless it has
// answered before.
func (a *Activities) cancelGivenUp(ctx context.Context, jobID string, attempt int) error {
	sought, err := a.Store.SoughtAttempt(ctx, jobID, attempt)
	if err != nil || sought.CancelAsked || sought.State != onejob.AttemptCancelled {
		return err // what has its outcome another way is not to be cancelled
	}
	_, _, err = a.askToCancel(ctx, jobID, sought)
	return err
}

// askToCancel returns an empty verdict if the provider cannot be asked.
func (a *Activities) askToCancel(ctx context.Context, jobID string, sought postgres.Sought) (provider.CancelVerdict, provider.Provider, error) {
	p, _ := a.Providers.Get(sought.Provider)
	canceller, ok := p.Adapter.(provider.Canceller)
	if !ok {
		return "", p, nil
	}
	said := a.cancelCall(ctx, canceller, question(p, jobID, sought))
	if said.Verdict == provider.CancelUnasked {
		return "", p, nil
	}
	a.Logger.Info("the provider was asked to give the attempt up", "job_id", jobID, "attempt", sought.Number, "provider", p.Name, "verdict", said.Verdict, "detail", said.Detail)
	return said.Verdict, p, a.Store.NoteProviderCancel(ctx, jobID, sought.Number, string(said.Verdict))
}

// liveAttempt returns the attempt if it has no outcome yet; else its number is 0.
func (a *Activities) liveAttempt(ctx context.Context, in CancelInput) (postgres.Sought, error) {
	attempts, err := a.Store.Attempts(ctx, in.JobID)
	if err != nil {
		return postgres.Sought{}, err
	}
	i := slices.IndexFunc(attempts, func(attempt onejob.Attempt) bool {
		return attempt.Unresolved() && (in.Number == 0 || in.Number == attempt.Number)
	})
	if i < 0 || attempts[i].State.Final() {
		return postgres.Sought{}, nil
	}
	return a.Store.SoughtAttempt(ctx, in.JobID, attempts[i].Number)
}

// cancelCall asks once.
func (a *Activities) cancelCall(ctx context.Context, canceller provider.Canceller, q provider.Question) (said provider.Cancellation) {
	said = provider.Cancellation{Verdict: provider.CancelUnsure}
	var panicked provider.Answer
	defer a.recoverAdapter(q.JobID, q.Attempt, &panicked)
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	return canceller.Cancel(ctx, q)
}

// lookUpOnce asks what became of a call that is done, and records it.
func (a *Activities) lookUpOnce(ctx context.Context, p provider.Provider, jobID string, sought postgres.Sought) error {
	q := question(p, jobID, sought)
	looker, policy := lookUpper(p)
	if policy == nil || !looker.CanLookUp(q) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	answer := a.lookUp(ctx, looker, q)
	if !final(answer) {
		return nil
	}
	answer, err := JudgeOf(a.Options).Judged(ctx, jobID, sought, p, answer)
	if err != nil {
		return err
	}
	recorded, err := recorder{a, jobID, sought.Number, p.Name, uuid.NewString(), sought.InputBytes}.writeOutcome(ctx, answer)
	a.observe(ctx, p.Name, sought.Kind, recorded)
	return err
}
