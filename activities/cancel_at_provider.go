package activities

import (
	"context"

	"github.com/google/uuid"

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
	p, ok := a.Providers.Get(sought.Provider)
	if !ok {
		return nil
	}
	canceller, ok := p.Adapter.(provider.Canceller)
	if !ok {
		return nil
	}
	q := question(in.JobID, sought)
	said := a.cancelCall(ctx, canceller, q)
	a.Logger.Info("the provider was asked to give the attempt up", "job_id", in.JobID, "attempt", sought.Number, "provider", p.Name, "verdict", said.Verdict, "detail", said.Detail)
	if err := a.Store.NoteProviderCancel(ctx, in.JobID, sought.Number, string(said.Verdict)); err != nil {
		return TemporalError(err)
	}
	if said.Verdict != provider.CancelRefused {
		return nil
	}
	return TemporalError(a.lookUpOnce(ctx, p, q))
}

// liveAttempt returns the attempt if it has no outcome yet; else its number is 0.
func (a *Activities) liveAttempt(ctx context.Context, in CancelInput) (postgres.Sought, error) {
	attempts, err := a.Store.Attempts(ctx, in.JobID)
	if err != nil {
		return postgres.Sought{}, err
	}
	for _, attempt := range attempts {
		if !attempt.State.Final() && (in.Number == 0 || in.Number == attempt.Number) {
			return a.Store.SoughtAttempt(ctx, in.JobID, attempt.Number)
		}
	}
	return postgres.Sought{}, nil
}

// cancelCall asks once.
func (a *Activities) cancelCall(ctx context.Context, canceller provider.Canceller, q provider.Question) (said provider.Cancellation) {
	said = provider.Cancellation{Verdict: provider.CancelUnsure}
	var panicked provider.Answer
	defer func() {
		if said.Verdict != provider.CancelAgreed && said.Verdict != provider.CancelRefused {
			said.Verdict = provider.CancelUnsure
		}
	}()
	defer a.recoverAdapter(q.JobID, q.Attempt, &panicked)
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	return canceller.Cancel(ctx, q)
}

// lookUpOnce asks what became of a call that is done, and records it.
func (a *Activities) lookUpOnce(ctx context.Context, p provider.Provider, q provider.Question) error {
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
	recorded, err := recorder{a, q.JobID, q.Attempt, p.Name, uuid.NewString()}.writeOutcome(ctx, answer)
	a.observe(p.Name, recorded)
	return err
}
