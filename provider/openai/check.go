package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/probe"
)

var _ provider.Checker = (*Adapter)(nil)

// Check implements [provider.Checker]. It asks for the model, which costs nothing.
func (a *Adapter) Check(ctx context.Context, o provider.CheckOptions) []provider.Finding {
	contact := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.models.Get(ctx, a.model, options...)
		return err
	})
	model, list := a.checkModel(ctx, contact)
	idempotency, _ := probe.Idempotency(a.line.KeyHeader, o, func(call provider.Call) provider.Answer {
		call.Input = json.RawMessage(a.api.sample)
		return a.Call(ctx, call)
	})
	lookUp, cancel := a.checkExits(ctx)
	return probe.Cleaned(a.line.Secrets,
		contact.Reachable(), probe.Credentials(contact, list), model, contact.Clock(), idempotency, lookUp, cancel)
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

// checkModel says whether the provider knows the model. Some servers only list theirs; the
// list is returned too.
func (a *Adapter) checkModel(ctx context.Context, asked probe.Contact) (_ provider.Finding, list probe.Contact) {
	found := func(v provider.Verdict, format string, args ...any) provider.Finding {
		return probe.Found(provider.FindingModel, v, format, args...)
	}
	switch asked.Status() {
	case http.StatusOK:
		return found(provider.VerdictOK, "%s", a.model), list
	case http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		return found(provider.VerdictUnknown, "it could not be asked"), list
	}
	list = a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.models.List(ctx, options...)
		return err
	})
	switch {
	case list.Status() != http.StatusOK:
		return found(provider.VerdictUnknown, "status %d for the list of models", list.Status()), list
	case lists(list.Received.Body, a.model):
		return found(provider.VerdictOK, "%s, among those listed", a.model), list
	}
	return found(provider.VerdictFailed, "%s is not among those that the provider lists: correct model", a.model), list
}

// lists says that a list of models has the model.
func lists(body []byte, model string) bool {
	var list struct{ Data []struct{ ID string } }
	if json.NewDecoder(bytes.NewReader(body)).Decode(&list) != nil {
		return false
	}
	for _, m := range list.Data {
		if m.ID == model {
			return true
		}
	}
	return false
}

// checkExits asks about a response that does not exist, and to cancel it.
func (a *Adapter) checkExits(ctx context.Context) (lookUp, cancel provider.Finding) {
	if !a.background {
		const none = "answers come on the connection only: api: responses with background: true can be asked"
		return probe.Found(provider.FindingLookUp, provider.VerdictWarning, none), probe.Found(provider.FindingCancel, provider.VerdictWarning, none)
	}
	reference := probe.NoCall().Reference
	asked := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.responses.Get(ctx, reference, responses.ResponseGetParams{}, options...)
		return err
	})
	cancelled := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		_, err := a.responses.Cancel(ctx, reference, options...)
		return err
	})
	return probe.Asked(provider.FindingLookUp, asked.Status()), probe.Asked(provider.FindingCancel, cancelled.Status())
}
