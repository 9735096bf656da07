package line

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

// Exchange is one request that an SDK makes, and what came back. What the SDK itself
// makes of the answer does not count: a verdict needs the answer as it was on the wire.
type Exchange struct {
	ctx      context.Context
	trace    *transport.Trace
	limit    int
	answered bool
	received verdict.Received
	err      error
}

// streamFactor is how much longer a stream of events may be than the result in it.
const streamFactor = 16

// Exchange returns an exchange, and the context that its request must have.
func (l *Line) Exchange(ctx context.Context) (context.Context, *Exchange) {
	ctx, trace := transport.WithTrace(ctx)
	return ctx, &Exchange{ctx: ctx, trace: trace, limit: l.Limits.ResultBytes}
}

// Middleware is the SDK's last before the wire. It reads the answer within the limit and
// hands the SDK a copy.
func (x *Exchange) Middleware(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		x.err = err
		return resp, err
	}
	limit := x.limit
	if isStream(resp.Header) {
		limit *= streamFactor
	}
	x.received, x.answered = verdict.Receive(x.ctx, resp, limit), true
	_ = resp.Body.Close() // what was read is judged, the rest is not ours
	resp.Body = io.NopCloser(bytes.NewReader(x.received.Body))
	return resp, nil
}

// Received returns the answer, false if none came.
func (x *Exchange) Received() (verdict.Received, bool) { return x.received, x.answered }

// Unanswered judges a call that no answer came to. Err is what the SDK returned; it
// counts if the request never reached the wire.
func (x *Exchange) Unanswered(err error) provider.Answer {
	if x.err != nil {
		err = x.err
	}
	if err == nil {
		err = errors.New("the SDK made no request")
	}
	return verdict.Unanswered(x.ctx, x.trace.Sent(), err)
}

// Streams says that an answer is a whole stream of events.
func Streams(r verdict.Received) bool {
	return r.Status == http.StatusOK && r.Body != nil && isStream(r.Header)
}

func isStream(header http.Header) bool {
	mediaType, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return mediaType == "text/event-stream"
}
