package verdict

import (
	"context"
	"io"
	"net/http"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// Length says whether a body was within the limit.
type Length int

// The lengths.
const (
	WithinLimit     Length = iota
	TooLongDeclared        // nothing of it was read
	TooLongFound
)

// Received is what came back from a provider.
type Received struct {
	Status    int
	Header    http.Header
	Body      []byte // whole, or nil
	Length    Length
	Cut       onejob.Reason // why the body ended early; empty: it did not
	CutBy     string        // prose
	OpenEnded bool          // the body ends where the connection does: nothing tells a whole one from a cut one
}

// Receive reads a response as far as the limit in bytes allows, until ctx ends. It does
// not close its body.
func Receive(ctx context.Context, resp *http.Response, limit int) Received {
	r := Received{Status: resp.StatusCode, Header: resp.Header, OpenEnded: openEnded(resp)}
	if resp.ContentLength > int64(limit) {
		r.Length = TooLongDeclared
		return r
	}
	if resp.StatusCode < http.StatusOK {
		return r // another protocol follows, not a body
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case len(body) > limit:
		r.Length = TooLongFound
	case err != nil:
		r.Cut, r.CutBy = lossReason(ctx), err.Error()
	default:
		r.Body = body
	}
	return r
}

func openEnded(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// Unanswered judges a call that ended with err and without an answer's head. Sent says
// that a byte of it may have reached the provider.
func Unanswered(ctx context.Context, sent bool, err error) provider.Answer {
	if !sent {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonNotSent, Retryable: true, Detail: err.Error()}
	}
	return unknown(lossReason(ctx), "no answer came: "+err.Error())
}

func lossReason(ctx context.Context) onejob.Reason {
	if ctx.Err() != nil {
		return onejob.ReasonTimeout
	}
	return onejob.ReasonConnectionLost
}
