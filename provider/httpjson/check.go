package httpjson

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/probe"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

var _ provider.Checker = (*Adapter)(nil)

// Check implements [provider.Checker]. It sends HEAD to the URL, and asks about a call that
// does not exist where it can. A paid check sends the input {}.
func (a *Adapter) Check(ctx context.Context, o provider.CheckOptions) []provider.Finding {
	contact := a.contact(ctx, http.MethodHead, a.line.URL)
	lookUp, asked := a.checkLookUp(ctx)
	idempotency, paid := probe.Idempotency(a.line.KeyHeader, o, func(call provider.Call) provider.Answer {
		call.Input = json.RawMessage(`{}`)
		return a.Call(ctx, call)
	})
	if paid != nil && (paid.Certainty == provider.Succeeded || paid.Certainty == provider.Accepted) {
		asked = probe.Contact{Received: &verdict.Received{Status: http.StatusOK}}
	}
	model := probe.Found(provider.FindingModel, provider.VerdictUnknown, "this API has no question for it")
	return probe.Cleaned(a.line.Secrets,
		contact.Reachable(), probe.Credentials(refusal(contact), asked), model, contact.Clock(), idempotency, lookUp, a.checkCancel(ctx))
}

// refusal returns the contact if it is about the credentials, else none: a HEAD that was
// answered did not need any.
func refusal(head probe.Contact) probe.Contact {
	if probe.Refuses(head.Status()) {
		return head
	}
	return probe.Contact{}
}

// contact makes one request without a body and keeps what came of it.
func (a *Adapter) contact(ctx context.Context, method string, at *url.URL) probe.Contact {
	q := probe.NoCall()
	ctx, trace := transport.WithTrace(ctx)
	received, err := a.line.Send(a.request(ctx, method, at, q.JobID, q.Attempt))
	if err != nil {
		return probe.Contact{Unanswered: verdict.Unanswered(ctx, trace.Sent(), err)}
	}
	return probe.Contact{Received: &received, At: time.Now()}
}

// checkLookUp asks about a call that does not exist, and returns what came of it too.
func (a *Adapter) checkLookUp(ctx context.Context) (_ provider.Finding, asked probe.Contact) {
	at, ok := a.questionPlace(probe.NoCall())
	if !ok {
		return probe.Found(provider.FindingLookUp, provider.VerdictWarning, "none is configured: what became of a call whose reply was lost, a person must find out"), asked
	}
	asked = a.contact(ctx, http.MethodGet, at)
	return probe.Asked(provider.FindingLookUp, asked.Status()), asked
}

func (a *Adapter) checkCancel(ctx context.Context) provider.Finding {
	at, ok := a.cancelPlace(probe.NoCall())
	if !ok {
		return probe.Found(provider.FindingCancel, provider.VerdictWarning, "none is configured: a call that is given up goes on at the provider")
	}
	return probe.Asked(provider.FindingCancel, a.contact(ctx, a.cancelMethod, at).Status())
}
