// Package httpjson calls a provider that takes a job's input as a JSON body and
// answers with a JSON body.
//
// It is the authority on what such an answer means: [Adapter.Call] sends the request
// at most once (package transport) and judges by the status, the codes in the body and
// whether a byte was sent, as the table in docs/design.md says, never by prose. It
// returns no errors; what went wrong is in the answer. It imports the domain, provider
// and transport.
package httpjson

import (
	"bytes"
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
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
	Certain Certain
	Proxy   string         // URL; empty: none, whatever the environment says
	RootCAs *x509.CertPool // nil: the system's
}

// Certain declares what the provider's documentation promises beyond the common
// meaning of its answers.
type Certain struct {
	NoEffect      []int    // statuses that are a final no
	Refused       []int    // statuses that mean 'not now' without any effect
	NoEffectCodes []string // the same by the error's code
	RefusedCodes  []string
}

// Adapter is a [provider.Adapter] for one provider.
type Adapter struct {
	url       *url.URL
	header    http.Header
	keyHeader string
	limits    onejob.Limits
	certain   Certain
	secrets   provider.Secrets
	transport *transport.Transport
	now       func() time.Time
}

var _ provider.Adapter = (*Adapter)(nil)

// Call implements [provider.Adapter].
func (a *Adapter) Call(ctx context.Context, call provider.Call) provider.Answer {
	ctx, trace := transport.WithTrace(ctx)
	resp, err := a.transport.RoundTrip(a.request(ctx, call))
	if err != nil {
		return a.clean(unanswered(ctx, trace.Sent(), err))
	}
	defer func() { _ = resp.Body.Close() }() // what was read is judged, the rest is not ours
	return a.clean(a.judge(a.receive(ctx, resp)))
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

// receive reads an answer as far as the limit allows.
func (a *Adapter) receive(ctx context.Context, resp *http.Response) received {
	r := received{status: resp.StatusCode, header: resp.Header, openEnded: openEnded(resp)}
	limit := int64(a.limits.ResultBytes)
	if resp.ContentLength > limit {
		r.length = tooLongDeclared
		return r
	}
	if resp.StatusCode < http.StatusOK {
		return r // another protocol follows, not a body
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		r.length = tooLongFound
	case err != nil:
		r.cut, r.cutBy = lossReason(ctx), err.Error()
	default:
		r.body = body
	}
	return r
}

// openEnded says that the body ends where the connection does, so that nothing tells
// a whole one from a cut one.
func openEnded(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// unanswered judges a call that ended without an answer's head.
func unanswered(ctx context.Context, sent bool, err error) provider.Answer {
	if !sent {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonNotSent, Retryable: true, Detail: err.Error()}
	}
	return provider.Answer{Certainty: provider.Unknown, Reason: lossReason(ctx), Detail: err.Error()}
}

func lossReason(ctx context.Context) onejob.Reason {
	if ctx.Err() != nil {
		return onejob.ReasonTimeout
	}
	return onejob.ReasonConnectionLost
}

func (a *Adapter) clean(answer provider.Answer) provider.Answer {
	answer.Detail = a.secrets.Clean(answer.Detail)
	return answer
}
