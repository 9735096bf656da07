package openai

import (
	"context"
	"net/http"

	"github.com/openai/openai-go/v3/responses"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// CanLookUp implements [provider.LookUpper]: responses are known by the id that the
// provider gave them.
func (a *Adapter) CanLookUp(q provider.Question) bool { return a.api.asked && q.Reference != "" }

// LookUp implements [provider.LookUpper].
func (a *Adapter) LookUp(ctx context.Context, q provider.Question) provider.Answer {
	if !a.CanLookUp(q) {
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonNotSent, Detail: "the provider cannot be asked about this call"}
	}
	ctx, x := a.line.Exchange(ctx)
	_, err := a.responses.Get(ctx, q.Reference, responses.ResponseGetParams{}, named(x, q.JobID, q.Attempt)...)
	received, ok := x.Received()
	if !ok {
		return a.line.Clean(verdict.Undecided(x.Unanswered(err)))
	}
	return a.line.Clean(a.judge.LookUp(received, q.Age))
}

// Cancel implements [provider.Canceller].
func (a *Adapter) Cancel(ctx context.Context, q provider.Question) provider.Cancellation {
	if !a.CanLookUp(q) {
		return provider.Cancellation{Verdict: provider.CancelUnasked, Detail: "the provider cannot be asked to cancel this call"}
	}
	ctx, x := a.line.Exchange(ctx)
	_, err := a.responses.Cancel(ctx, q.Reference, named(x, q.JobID, q.Attempt)...)
	received, ok := x.Received()
	if !ok {
		return provider.Cancellation{Verdict: provider.CancelUnsure, Detail: a.line.Secrets.Clean(x.Unanswered(err).Detail)}
	}
	// A response that is over is refused as a bad request.
	c := a.judge.Cancel(received, http.StatusBadRequest)
	c.Detail = a.line.Secrets.Clean(c.Detail)
	return c
}
