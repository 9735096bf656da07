package transport

import (
	"context"
	"net"
	"net/http/httptrace"
	"regexp"
	"sync"
)

// Trace knows how far one request came. Its zero value is ready; it serves one call
// and may be read from any goroutine.
//
// Where its knowledge comes from:
//
//   - No connection: the transport calls GotConn in the caller's own goroutine before
//     it hands the request to a connection. A failed look-up, dial, handshake or
//     CONNECT never gets there.
//   - HTTP/1: a connection carries one request at a time, and RoundTrip returns an
//     error only after its writer has stopped (persistConn.mapRoundTripError), so the
//     bytes the socket took between GotConn and that error are the request's. Under
//     TLS a closing alert counts as well, which errs towards 'sent'.
//   - HTTP/2: connections are shared, so the first header field encoded counts as
//     sent. RoundTrip waits for the stream's goroutine unless the context ended; then
//     the goroutine may be about to write, and the request counts as sent.
//   - HTTP/2 REFUSED_STREAM and a GOAWAY below the stream: the server's own word that
//     it did not look at the request (RFC 9113, 8.7 and 6.8).
type Trace struct {
	mu      sync.Mutex
	claimed bool
	sent    bool         // until settled: the worst that may be true
	written bool         // on a connection before the present one
	conn    *countedConn // the present connection, if it is HTTP/1
	before  int64        // bytes that conn had taken before the request
	shared  bool         // the present connection is HTTP/2
	encoded bool         // on the shared connection: a header field was
}

type traceKey struct{}

// WithTrace returns a context whose request reports to the returned trace.
func WithTrace(ctx context.Context) (context.Context, *Trace) {
	t := &Trace{}
	return context.WithValue(ctx, traceKey{}, t), t
}

func traceOf(ctx context.Context) *Trace {
	if t, ok := ctx.Value(traceKey{}).(*Trace); ok {
		return t
	}
	return &Trace{}
}

// Sent says that a byte of the request may have reached the server, and that the
// server did not say it ignored it. While the request is under way it is true.
func (t *Trace) Sent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent
}

// claim reserves the trace for one request.
func (t *Trace) claim() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claimed {
		return false
	}
	t.claimed, t.sent = true, true
	return true
}

// settle fixes what is certain once RoundTrip has returned.
func (t *Trace) settle(ctx context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || t.written {
		return
	}
	aboutToWrite := t.shared && ctx.Err() != nil
	t.sent = (t.wrote() || aboutToWrite) && !ignoredByServer(err)
}

// wrote says that a byte of the request left on the present connection.
func (t *Trace) wrote() bool {
	return t.encoded || t.conn != nil && t.conn.taken.Load() > t.before
}

func (t *Trace) hooks(abort context.CancelCauseFunc) *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			if t.moveTo(got.Conn) {
				abort(ErrSecondSend)
				closeUnshared(got.Conn)
			}
		},
		WroteHeaderField: func(string, []string) { t.encode() },
	}
}

// moveTo notes the connection that the request goes to next, and says whether the
// request was already written on one before.
func (t *Trace) moveTo(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = t.written || t.wrote()
	t.conn, t.before, t.shared, t.encoded = nil, 0, sharesStreams(conn), false
	before := t.written
	switch c := countedUnder(conn); {
	case t.shared:
	case c == nil:
		t.written = true // nobody counts there: the worst holds
	default:
		t.conn, t.before = c, c.taken.Load()
	}
	return before
}

func (t *Trace) encode() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.encoded = t.encoded || t.shared
}

// Messages of the transport that carry the server's word that it ignored the request.
// The transport keeps the typed errors to itself, so its texts are matched whole; a
// test meets each on the wire, and a text that changes makes the call 'sent'. Nothing
// that the server can choose appears in them.
var ignored = regexp.MustCompile(`^(` +
	`http2: Transport: cannot retry err \[(stream error: stream ID \d+; REFUSED_STREAM; received from peer|http2: Transport received Server's graceful shutdown GOAWAY)\] after Request\.Body was written; define Request\.GetBody to avoid this error` +
	`|http2: Transport received GOAWAY from server ErrCode:[A-Z0-9_]+` +
	`)$`)

func ignoredByServer(err error) bool { return ignored.MatchString(err.Error()) }
