// Package httpjson calls a provider that takes a job's input as a JSON body and
// answers with a JSON body, or takes the input under a reference and can be asked.
//
// It sends each request at most once (package transport) and has the answers judged
// (package verdict). What a provider can do beside answering is configuration: being
// asked ([LookUp]), giving up ([Cancel]), honouring keys. It returns no errors; what went
// wrong is in the answer. It imports the domain, provider, transport and verdict.
package httpjson

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

// Adapter is a [provider.Adapter] for one provider, and what its configuration makes of
// it beside.
type Adapter struct {
	line    *line.Line
	calls   verdict.Judge
	lookUps verdict.Judge

	lookUpAt     place
	cancelAt     place
	cancelMethod string
}

var _ provider.Adapter = (*Adapter)(nil)

// Call implements [provider.Adapter].
func (a *Adapter) Call(ctx context.Context, call provider.Call) provider.Answer {
	ctx, trace := transport.WithTrace(ctx)
	r, err := a.line.Send(a.run(ctx, call, call.Input))
	if err != nil {
		return a.line.Clean(verdict.Unanswered(ctx, trace.Sent(), err))
	}
	return a.line.Clean(a.calls.Answer(r))
}

// Close closes idle connections. Calls under way go on.
func (a *Adapter) Close() { a.line.Close() }

// run returns the request of a call.
func (a *Adapter) run(ctx context.Context, call provider.Call, body []byte) *http.Request {
	req := a.request(ctx, http.MethodPost, a.line.URL, call.JobID, call.Attempt)
	req.Header.Set("Content-Type", "application/json")
	if a.line.KeyHeader != "" {
		req.Header.Set(a.line.KeyHeader, call.IdempotencyKey)
	}
	if call.CallbackURL != "" {
		req.Header.Set("Onejob-Callback", call.CallbackURL)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return req
}

// request returns a request without a body.
func (a *Adapter) request(ctx context.Context, method string, at *url.URL, jobID string, attempt int) *http.Request {
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"onejob"}}
	for name, values := range a.line.Header {
		header[name] = values
	}
	line.NameCall(header.Set, jobID, attempt)
	return (&http.Request{Method: method, URL: at, Host: at.Host, Header: header}).WithContext(ctx)
}
