package httpjson

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
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
		return provider.Cancellation{Verdict: provider.CancelUnsure, Detail: "the provider cannot be asked to cancel this call"}
	}
	ctx, _ = transport.WithTrace(ctx)
	r, err := a.line.Send(a.request(ctx, a.cancelMethod, at, q.JobID, q.Attempt))
	if err != nil {
		return provider.Cancellation{Verdict: provider.CancelUnsure, Detail: a.line.Secrets.Clean(err.Error())}
	}
	return a.cancelled(r)
}

func (a *Adapter) cancelPlace(q provider.Question) (*url.URL, bool) {
	if _, isLocation := a.location(q.Reference); a.cancelAt == "" || isLocation {
		return nil, false
	}
	text, whole := a.cancelAt.of(q)
	at, err := url.Parse(text)
	return at, whole && err == nil
}

// cancelled judges the answer to a cancel. A member status in a 2xx decides; without
// one a 200 or 204 agrees, and a 202 only promises to try.
func (a *Adapter) cancelled(r verdict.Received) provider.Cancellation {
	said := func(v provider.CancelVerdict, detail string) provider.Cancellation {
		return provider.Cancellation{Verdict: v, Detail: a.line.Secrets.Clean(detail)}
	}
	status := fmt.Sprintf("status %d", r.Status)
	answer := a.lookUps.LookUp(r, 0)
	switch {
	case answer.Certainty == provider.Succeeded:
		return said(provider.CancelRefused, "it has succeeded")
	case answer.Certainty == provider.Failed && answer.Reason == onejob.ReasonProviderCancelled:
		return said(provider.CancelAgreed, status)
	case answer.Certainty == provider.Failed:
		return said(provider.CancelRefused, answer.Detail)
	case answer.Reason == onejob.ReasonInProgress:
		return said(provider.CancelUnsure, status+": "+answer.Detail)
	case r.Status == http.StatusNoContent, r.Status == http.StatusOK && a.saysNothing(r):
		return said(provider.CancelAgreed, status)
	case r.Status == http.StatusConflict, r.Status == http.StatusGone:
		return said(provider.CancelRefused, answer.Detail)
	}
	return said(provider.CancelUnsure, answer.Detail)
}

// saysNothing says that an answer is whole, and empty or JSON without a word about the
// call.
func (a *Adapter) saysNothing(r verdict.Received) bool {
	if len(r.Body) == 0 {
		return r.Cut == "" && r.Length == verdict.WithinLimit
	}
	m, err := verdict.Read(r.Body, a.line.Limits.Depth)
	return err == nil && !m.Failed && m.Member("status") == nil
}
