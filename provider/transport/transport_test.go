package transport_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/provider/internal/rawserver"
	"github.com/onejob/onejob/provider/transport"
	"go.uber.org/goleak"
	"golang.org/x/net/http2"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

// answerOnceThenHangUp answers the first request of the first connection, takes the
// second one and closes without a word. Later connections answer.
func answerOnceThenHangUp(c *rawserver.Conn) {
	for n := 0; c.ReadRequest() != nil; n++ {
		if c.Number == 0 && n == 1 {
			return
		}
		c.Reply(ok)
	}
}

func TestRequestOnABrokenReusedConnectionIsSentOnce(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			server := serve(t, scheme, "http/1.1", answerOnceThenHangUp)
			client := newTransport(t, transport.Options{RootCAs: server.Roots})
			mustPost(t, client, scheme, server)
			sent, err := post(t.Context(), client, scheme, server)
			if err == nil || !sent {
				t.Errorf("sent %v, error %v; want an error about a request that was sent", sent, err)
			}
			if server.Requests() != 2 {
				t.Errorf("the wire saw %d requests for two calls", server.Requests())
			}
		})
	}
}

// The trap that this package exists for is real.
func TestGoRepeatsThatRequest(t *testing.T) {
	server := rawserver.New(t, answerOnceThenHangUp)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	mustPost(t, base, "http", server)
	mustPost(t, base, "http", server)
	if server.Requests() != 3 {
		t.Errorf("the wire saw %d requests; Go used to send the second call twice", server.Requests())
	}
}

func TestRequestWithoutBodyIsSentOnce(t *testing.T) {
	server := rawserver.New(t, answerOnceThenHangUp)
	client := newTransport(t, transport.Options{})
	for range 2 {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr, nil)
		if resp, err := client.RoundTrip(req); err == nil {
			drain(t, resp)
		}
	}
	if server.Requests() != 2 {
		t.Errorf("the wire saw %d requests for two calls", server.Requests())
	}
}

// ignoredRequests are the ways in which an HTTP/2 server says that it did not look at
// a request.
var ignoredRequests = map[string]func(*rawserver.HTTP2, uint32) error{
	"REFUSED_STREAM": func(h *rawserver.HTTP2, stream uint32) error {
		return h.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
	},
	"GOAWAY below the stream": func(h *rawserver.HTTP2, _ uint32) error {
		return h.WriteGoAway(0, http2.ErrCodeNo, nil)
	},
	"GOAWAY below the first stream with a code": func(h *rawserver.HTTP2, _ uint32) error {
		return h.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("calm"))
	},
}

func TestIgnoredHTTP2RequestIsNotSentAndNotRepeated(t *testing.T) {
	for name, ignore := range ignoredRequests {
		t.Run(name, func(t *testing.T) {
			server := serveHTTP2(t, ignore)
			client := newTransport(t, transport.Options{RootCAs: server.Roots})
			sent, err := post(t.Context(), client, "https", server)
			if err == nil || sent {
				t.Errorf("sent %v, error %v; want one about a request that was not sent", sent, err)
			}
			if server.Requests() != 1 {
				t.Errorf("the wire saw %d requests for one call", server.Requests())
			}
		})
	}
}

func TestGoRepeatsIgnoredHTTP2Request(t *testing.T) {
	server := serveHTTP2(t, ignoredRequests["REFUSED_STREAM"])
	base := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: trusting(server)}
	t.Cleanup(base.CloseIdleConnections)
	mustPost(t, base, "https", server)
	if server.Requests() != 2 {
		t.Errorf("the wire saw %d requests; Go used to send the call twice", server.Requests())
	}
}

// endedRequests are ends of an HTTP/2 request that leave open what became of it.
var endedRequests = map[string]func(*rawserver.HTTP2, uint32) error{
	"PROTOCOL_ERROR": func(h *rawserver.HTTP2, stream uint32) error {
		return h.WriteRSTStream(stream, http2.ErrCodeProtocol)
	},
	"INTERNAL_ERROR": func(h *rawserver.HTTP2, stream uint32) error {
		return h.WriteRSTStream(stream, http2.ErrCodeInternal)
	},
	"GOAWAY that counts the stream, then closed": func(h *rawserver.HTTP2, stream uint32) error {
		text := "http2: Transport received GOAWAY from server ErrCode:NO_ERROR"
		return closing(h.WriteGoAway(stream, http2.ErrCodeInternal, []byte(text)))
	},
	"closed": func(*rawserver.HTTP2, uint32) error { return io.EOF },
}

func TestHTTP2RequestOfUnclearEndCountsAsSent(t *testing.T) {
	for name, end := range endedRequests {
		t.Run(name, func(t *testing.T) {
			server := serveHTTP2(t, end)
			client := newTransport(t, transport.Options{RootCAs: server.Roots})
			sent, err := post(t.Context(), client, "https", server)
			if err == nil || !sent || server.Requests() != 1 {
				t.Errorf("sent %v, error %v, %d requests; want one that was sent", sent, err, server.Requests())
			}
		})
	}
}

func TestRequestWithoutConnectionIsNotSent(t *testing.T) {
	plain := rawserver.New(t, (*rawserver.Conn).AwaitClose)
	untrusted := rawserver.NewTLS(t, nil, (*rawserver.Conn).AwaitClose)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]struct {
		ctx context.Context
		url string
	}{
		"name does not exist":   {t.Context(), "http://provider.invalid/"},
		"connection refused":    {t.Context(), "http://" + closedAddress(t)},
		"not TLS":               {t.Context(), "https://" + plainText(t)},
		"certificate untrusted": {t.Context(), "https://" + untrusted.Addr},
		"context ended before":  {ended, "http://" + plain.Addr},
	} {
		t.Run(name, func(t *testing.T) {
			sent, err := postTo(call.ctx, newTransport(t, transport.Options{}), call.url)
			if err == nil || sent {
				t.Errorf("sent %v, error %v; want an error about a request that was not sent", sent, err)
			}
		})
	}
}

func TestRequestIsSentWhenTheContextEndsAfterIt(t *testing.T) {
	for scheme, protocol := range map[string]string{"http": "http/1.1", "https": "h2"} {
		t.Run(protocol, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := serve(t, scheme, protocol, func(c *rawserver.Conn) {
				if protocol == "h2" {
					c.HTTP2(t).ReadRequest()
				} else {
					c.ReadRequest()
				}
				cancel()
				c.AwaitClose()
			})
			sent, err := post(ctx, newTransport(t, transport.Options{RootCAs: server.Roots}), scheme, server)
			if err == nil || !sent {
				t.Errorf("sent %v, error %v; want an error about a request that was sent", sent, err)
			}
		})
	}
}

func TestProxyThatRefusesToConnectLeavesTheRequestUnsent(t *testing.T) {
	proxy := rawserver.New(t, func(c *rawserver.Conn) {
		c.ReadRequest()
		c.Reply("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
	})
	client := newTransport(t, transport.Options{Proxy: "http://" + proxy.Addr})
	if sent, err := postTo(t.Context(), client, "https://provider.invalid/"); err == nil || sent {
		t.Errorf("sent %v, error %v; want an error about a request that was not sent", sent, err)
	}
}

func TestUnusableProxyIsRefused(t *testing.T) {
	for _, proxy := range []string{"ftp://h", "host:80", "http://", "%"} {
		if _, err := transport.New(transport.Options{Proxy: proxy}); err == nil {
			t.Errorf("proxy %q was taken", proxy)
		}
	}
}

func TestTraceCarriesOneRequest(t *testing.T) {
	server := rawserver.New(t, answerOnceThenHangUp)
	client := newTransport(t, transport.Options{})
	ctx, trace := transport.WithTrace(t.Context())
	mustRoundTrip(t, client, newPost(ctx, "http://"+server.Addr))
	if _, err := client.RoundTrip(newPost(ctx, "http://"+server.Addr)); err != transport.ErrSecondSend {
		t.Errorf("second request: %v", err)
	}
	if !trace.Sent() || server.Requests() != 1 {
		t.Errorf("sent %v, %d requests", trace.Sent(), server.Requests())
	}
}

func TestRedirectIsAnAnswer(t *testing.T) {
	server := rawserver.New(t, func(c *rawserver.Conn) {
		for c.ReadRequest() != nil {
			c.Reply("HTTP/1.1 307 Temporary Redirect\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
		}
	})
	resp, err := newTransport(t, transport.Options{}).Client().Do(newPost(t.Context(), "http://"+server.Addr))
	if err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Fatalf("response %v, error %v", resp, err)
	}
	drain(t, resp)
	if server.Requests() != 1 {
		t.Errorf("the wire saw %d requests", server.Requests())
	}
}

func TestHeadersOfAnAnswerAreBounded(t *testing.T) {
	server := rawserver.New(t, func(c *rawserver.Conn) {
		c.ReadRequest()
		c.Reply("HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Bomb: "+strings.Repeat("x", 1000)+"\r\n", 1000) + "\r\n")
		c.AwaitClose()
	})
	if sent, err := post(t.Context(), newTransport(t, transport.Options{}), "http", server); err == nil || !sent {
		t.Errorf("sent %v, error %v; want an error about a request that was sent", sent, err)
	}
}

func TestCompressedAnswerArrivesAsItWasSent(t *testing.T) {
	server := rawserver.New(t, func(c *rawserver.Conn) {
		if req := c.ReadRequest(); req != nil && req.Header.Get("Accept-Encoding") != "" {
			t.Errorf("asked for %q", req.Header.Get("Accept-Encoding"))
		}
		c.Reply("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08")
		c.AwaitClose()
	})
	resp, err := newTransport(t, transport.Options{}).RoundTrip(newPost(t.Context(), "http://"+server.Addr))
	if err != nil {
		t.Fatal(err)
	}
	if body := drain(t, resp); !bytes.Equal(body, []byte("\x1f\x8b\x08")) {
		t.Errorf("body %x", body)
	}
}

func closing(err error) error {
	if err != nil {
		return err
	}
	return io.EOF
}

func closedAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// plainText returns the address of a server that answers a handshake in plain HTTP.
func plainText(t *testing.T) string {
	return rawserver.New(t, func(c *rawserver.Conn) { c.Reply("HTTP/1.1 400 Bad Request\r\n\r\n") }).Addr
}
