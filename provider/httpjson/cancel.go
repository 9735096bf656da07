package httpjson

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
)

// Cancel says how the provider is asked to give a call up.
type Cancel struct {
	URL    string // as that of a [LookUp]
	Method string // empty: POST
}

// cancelMethods are the methods that a cancel may have.
var cancelMethods = []string{"", http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (c Cancel) check() error {
	if !slices.Contains(cancelMethods, c.Method) {
		return fmt.Errorf("its cancel method is %q: use one of %s", c.Method, strings.Join(cancelMethods[1:], ", "))
	}
	if c.URL == "" {
		return nil
	}
	return place(c.URL).check("cancel")
}

var _ provider.Canceller = (*Adapter)(nil)

// Cancel implements [provider.Canceller].
func (a *Adapter) Cancel(ctx context.Context, q provider.Question) provider.Cancellation {
	at, ok := a.cancelPlace(q)
	if !ok {
		return provider.Cancellation{Verdict: provider.CancelUnasked, Detail: "the provider cannot be asked to cancel this call"}
	}
	ctx, _ = transport.WithTrace(ctx)
	r, err := a.line.Send(a.request(ctx, a.cancelMethod, at, q.JobID, q.Attempt))
	if err != nil {
		return provider.Cancellation{Verdict: provider.CancelUnsure, Detail: a.line.Secrets.Clean(err.Error())}
	}
	cancellation := a.lookUps.Cancel(r)
	cancellation.Detail = a.line.Secrets.Clean(cancellation.Detail)
	return cancellation
}

func (a *Adapter) cancelPlace(q provider.Question) (*url.URL, bool) {
	if _, isLocation := a.location(q.Reference); a.cancelAt == "" || isLocation {
		return nil, false
	}
	text, whole := a.cancelAt.of(q)
	at, err := url.Parse(text)
	return at, whole && err == nil
}
