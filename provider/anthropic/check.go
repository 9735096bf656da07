package anthropic

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/probe"
)

var _ provider.Checker = (*Adapter)(nil)

// sample is a call that costs little.
const sample = `{"max_tokens":64,"messages":[{"role":"user","content":"Say ok."}]}`

// Check implements [provider.Checker]. It asks for the model, which costs nothing.
func (a *Adapter) Check(ctx context.Context, o provider.CheckOptions) []provider.Finding {
	contact := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.client.Models.Get(ctx, a.model, sdk.ModelGetParams{}, options...)
		return err
	})
	idempotency, _ := probe.Idempotency(a.line.KeyHeader, o, func(call provider.Call) provider.Answer {
		call.Input = json.RawMessage(sample)
		return a.Call(ctx, call)
	})
	lookUp, cancel := a.checkExits(ctx)
	return probe.Cleaned(a.line.Secrets,
		contact.Reachable(), probe.Credentials(contact), a.checkModel(contact), contact.Clock(), idempotency, lookUp, cancel)
}

// contact makes one request and keeps what came of it.
func (a *Adapter) contact(ctx context.Context, ask func(context.Context, ...option.RequestOption) error) probe.Contact {
	ctx, x := a.line.Exchange(ctx)
	err := ask(ctx, option.WithMiddleware(x.Middleware))
	received, ok := x.Received()
	if !ok {
		return probe.Contact{Unanswered: x.Unanswered(err)}
	}
	return probe.Contact{Received: &received, At: time.Now()}
}

func (a *Adapter) checkModel(asked probe.Contact) provider.Finding {
	switch asked.Status() {
	case http.StatusOK:
		return probe.Found(provider.FindingModel, provider.VerdictOK, "%s", a.model)
	case http.StatusNotFound:
		return probe.Found(provider.FindingModel, provider.VerdictFailed, "%s is not found: correct model", a.model)
	}
	return probe.Found(provider.FindingModel, provider.VerdictUnknown, "it could not be asked")
}

// checkExits asks about a batch that does not exist, and to cancel it.
func (a *Adapter) checkExits(ctx context.Context) (lookUp, cancel provider.Finding) {
	if !a.batch {
		const none = "answers come on the connection only: api: batch can be asked"
		return probe.Found(provider.FindingLookUp, provider.VerdictWarning, none), probe.Found(provider.FindingCancel, provider.VerdictWarning, none)
	}
	reference := probe.NoCall().Reference
	asked := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.client.Messages.Batches.Get(ctx, reference, sdk.MessageBatchGetParams{}, options...)
		return err
	})
	cancelled := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.client.Messages.Batches.Cancel(ctx, reference, sdk.MessageBatchCancelParams{}, options...)
		return err
	})
	return probe.Asked(provider.FindingLookUp, asked.Status()), probe.Asked(provider.FindingCancel, cancelled.Status())
}
