package exercise_test

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/net/http2"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/rawserver"
)

func replying(text string) func(*rawserver.Conn) {
	return func(c *rawserver.Conn) { c.Reply(text) }
}

// wires are how a connection goes on after a whole request, and what the call becomes.
var wires = map[string]struct {
	after func(*rawserver.Conn)
	want  provider.Answer
}{
	"closed":         {func(*rawserver.Conn) {}, unknown(onejob.ReasonConnectionLost)},
	"reset":          {(*rawserver.Conn).Reset, unknown(onejob.ReasonConnectionLost)},
	"not HTTP":       {replying("SSH-2.0\r\n\r\n"), unknown(onejob.ReasonConnectionLost)},
	"head cut":       {replying("HTTP/1.1 200 OK\r\nContent-Le"), unknown(onejob.ReasonConnectionLost)},
	"body cut":       {replying("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}"), unknown(onejob.ReasonConnectionLost)},
	"chunks cut":     {replying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), unknown(onejob.ReasonConnectionLost)},
	"refusal cut":    {replying("HTTP/1.1 429 No\r\nContent-Length: 100\r\n\r\n{}"), unknown(onejob.ReasonConnectionLost)},
	"not compressed": {replying("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"), unknown(onejob.ReasonUnreadable)},
}

func TestEveryAdapterKnowsWhatTheEndOfAConnectionMeans(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		for name, wire := range wires {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := rawserver.New(t, func(c *rawserver.Conn) { c.ReadRequest(); wire.after(c) })
				mustBe(t, s.callTo(t.Context(), s.mustOpen(t, settings{url: "http://" + server.Addr})), wire.want)
				if server.Requests() != 1 {
					t.Errorf("the wire saw %d requests", server.Requests())
				}
			})
		}
	})
}

func TestEveryAdapterSendsOnceOnABrokenReusedConnection(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		server := rawserver.New(t, func(c *rawserver.Conn) {
			c.ReadRequest()
			c.Reply(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(s.reply), s.reply))
			c.ReadRequest()
		})
		adapter := s.mustOpen(t, settings{url: "http://" + server.Addr, key: "Idempotency-Key"})
		mustBe(t, s.callTo(t.Context(), adapter), s.want)
		mustBe(t, s.callTo(t.Context(), adapter), unknown(onejob.ReasonConnectionLost))
		if server.Requests() != 2 {
			t.Errorf("the wire saw %d requests for two calls", server.Requests())
		}
	})
}

func TestEveryAdapterKnowsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	notSent := retryable(onejob.ReasonNotSent, 0)
	eachSubject(t, func(t *testing.T, s subject) {
		untrusted := rawserver.NewTLS(t, nil, (*rawserver.Conn).AwaitClose)
		proxy := rawserver.New(t, func(c *rawserver.Conn) {
			c.ReadRequest()
			c.Reply("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		})
		for name, with := range map[string]settings{
			"no such name": {url: "http://provider.invalid"},
			"refused":      {url: "http://" + closedAddress},
			"untrusted":    {url: "https://" + untrusted.Addr},
			"proxy":        {url: "https://provider.invalid", proxy: "http://" + proxy.Addr},
		} {
			t.Run(name, func(t *testing.T) {
				mustBe(t, s.callTo(t.Context(), s.mustOpen(t, with)), notSent)
			})
		}
		server := rawserver.New(t, func(c *rawserver.Conn) { c.ReadRequest() })
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		mustBe(t, s.callTo(ended, s.mustOpen(t, settings{url: "http://" + server.Addr})), notSent)
		if server.Requests() != 0 {
			t.Errorf("a call that had ended was sent")
		}
	})
}

func TestEveryAdapterKnowsWhatAnHTTP2ServerIgnored(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		for name, refuse := range map[string]func(*rawserver.HTTP2, uint32) error{
			"REFUSED_STREAM": func(h *rawserver.HTTP2, stream uint32) error {
				return h.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			},
			"GOAWAY": func(h *rawserver.HTTP2, _ uint32) error { return h.WriteGoAway(0, http2.ErrCodeNo, nil) },
		} {
			t.Run(name, func(t *testing.T) {
				server := rawserver.NewTLS(t, []string{"h2"}, func(c *rawserver.Conn) {
					frames := c.HTTP2(t)
					for stream := frames.ReadRequest(); stream != 0; stream = frames.ReadRequest() {
						_ = refuse(frames, stream)
					}
				})
				adapter := s.mustOpen(t, settings{url: "https://" + server.Addr, roots: server.Roots, key: "Idempotency-Key"})
				mustBe(t, s.callTo(t.Context(), adapter), retryable(onejob.ReasonNotSent, 0))
				if server.Requests() != 1 {
					t.Errorf("the wire saw %d requests", server.Requests())
				}
			})
		}
	})
}

func TestEveryAdapterWaitsUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		for name, answer := range map[string]string{
			"silence":   "",
			"slow body": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		} {
			ctx, cancel := context.WithCancel(t.Context())
			server := rawserver.New(t, func(c *rawserver.Conn) {
				c.ReadRequest()
				c.Reply(answer)
				cancel()
				c.AwaitClose()
			})
			t.Run(name, func(t *testing.T) {
				mustBe(t, s.callTo(ctx, s.mustOpen(t, settings{url: "http://" + server.Addr})), unknown(onejob.ReasonTimeout))
			})
		}
	})
}

// closedAddress is where nobody listens: below the ports that servers of tests get.
const closedAddress = "127.0.0.1:1"
