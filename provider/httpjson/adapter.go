// Package httpjson calls a provider that takes a job's input as a JSON body and
// answers with a JSON body.
//
// [Adapter.Call] sends the request at most once (package transport) and has the answer
// judged (package verdict). It returns no errors; what went wrong is in the answer. It
// imports the domain, provider, transport and verdict.
package httpjson

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

// Config describes a provider.
type Config struct {
	Name    string            // for messages
	URL     string            // http or https; a user in it becomes a Basic credential
	Headers map[string]string // with their values resolved; every value is treated as a secret

	// IdempotencyHeader carries the attempt's key, such as Idempotency-Key. Empty: the
	// provider does not honour keys, and none is sent.
	IdempotencyHeader string

	Limits  onejob.Limits
	Certain verdict.Certain
	Proxy   string         // URL; empty: none, whatever the environment says
	RootCAs *x509.CertPool // nil: the system's
}

// Adapter is a [provider.Adapter] for one provider.
type Adapter struct {
	url       *url.URL
	header    http.Header
	keyHeader string
	judge     verdict.Judge
	secrets   provider.Secrets
	transport *transport.Transport
}

var _ provider.Adapter = (*Adapter)(nil)

// Call implements [provider.Adapter].
func (a *Adapter) Call(ctx context.Context, call provider.Call) provider.Answer {
	ctx, trace := transport.WithTrace(ctx)
	resp, err := a.transport.RoundTrip(a.request(ctx, call))
	if err != nil {
		return a.clean(verdict.Unanswered(ctx, trace.Sent(), err))
	}
	defer func() { _ = resp.Body.Close() }() // what was read is judged, the rest is not ours
	return a.clean(a.judge.Answer(verdict.Receive(ctx, resp, a.judge.Limits.ResultBytes)))
}

// Close closes idle connections. Calls under way go on.
func (a *Adapter) Close() { a.transport.CloseIdle() }

func (a *Adapter) request(ctx context.Context, call provider.Call) *http.Request {
	req := (&http.Request{
		Method:        http.MethodPost,
		URL:           a.url,
		Host:          a.url.Host,
		Header:        a.header.Clone(),
		Body:          io.NopCloser(bytes.NewReader(call.Input)),
		ContentLength: int64(len(call.Input)),
	}).WithContext(ctx)
	req.Header.Set("Onejob-Job", call.JobID)
	req.Header.Set("Onejob-Attempt", strconv.Itoa(call.Attempt))
	if a.keyHeader != "" {
		req.Header.Set(a.keyHeader, call.IdempotencyKey)
	}
	return req
}

func (a *Adapter) clean(answer provider.Answer) provider.Answer {
	answer.Detail = a.secrets.Clean(answer.Detail)
	return answer
}
