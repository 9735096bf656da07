package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/provider/internal/rawserver"
	"golang.org/x/net/http2"
)

// sendRepeatable sends a request that the base transport may repeat, so that only the
// trace's own guard stands before the wire.
func sendRepeatable(t *testing.T, client *Transport, url string) (*Trace, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "k")
	trace := &Trace{}
	trace.claim()
	resp, err := client.send(req, trace)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return trace, err
}

func TestGuardStopsASecondSend(t *testing.T) {
	for name, server := range map[string]*rawserver.Server{
		"http":  hangingUpOnTheSecond(t),
		"https": refusingStreams(t),
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := New(Options{RootCAs: server.Roots})
			t.Cleanup(client.CloseIdle)
			trace, err := sendRepeatable(t, client, name+"://"+server.Addr)
			if err == nil {
				trace, err = sendRepeatable(t, client, name+"://"+server.Addr)
			}
			if !errors.Is(err, ErrSecondSend) || !trace.Sent() {
				t.Errorf("sent %v, error %v; want %v", trace.Sent(), err, ErrSecondSend)
			}
		})
	}
}

// hangingUpOnTheSecond answers one request per connection and hangs up on the next;
// its second connection must stay without a request.
func hangingUpOnTheSecond(t *testing.T) *rawserver.Server {
	return rawserver.New(t, func(c *rawserver.Conn) {
		if c.ReadRequest() != nil && c.Number > 0 {
			t.Error("the request was sent again")
		}
		c.Reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		c.ReadRequest()
	})
}

func refusingStreams(t *testing.T) *rawserver.Server {
	return rawserver.NewTLS(t, []string{"h2"}, func(c *rawserver.Conn) {
		frames := c.HTTP2(t)
		for n := 0; ; n++ {
			stream := frames.ReadRequest()
			if stream == 0 {
				return
			}
			if n > 0 {
				t.Error("the request was sent again")
				return
			}
			_ = frames.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}
	})
}

// brokenConn takes no byte.
type brokenConn struct{ net.Conn }

func (brokenConn) Write([]byte) (int, error) { return 0, errors.New("broken") }

// tornConn takes one byte of every write.
type tornConn struct{ net.Conn }

func (c tornConn) Write(p []byte) (int, error) {
	n, _ := c.Conn.Write(p[:1])
	return n, errors.New("torn")
}

func TestSentMeansThatTheSocketTookAByte(t *testing.T) {
	server := rawserver.New(t, (*rawserver.Conn).AwaitClose)
	for name, fault := range map[string]struct {
		wrap func(net.Conn) net.Conn
		sent bool
	}{
		"no byte":  {func(c net.Conn) net.Conn { return brokenConn{c} }, false},
		"one byte": {func(c net.Conn) net.Conn { return tornConn{c} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := New(Options{})
			client.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return &countedConn{Conn: fault.wrap(conn)}, err
			}
			ctx, trace := WithTrace(t.Context())
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server.Addr, strings.NewReader("{}"))
			if _, err := client.RoundTrip(req); err == nil || trace.Sent() != fault.sent {
				t.Errorf("sent %v, error %v", trace.Sent(), err)
			}
		})
	}
}

// ProxyFromEnvironment reads the environment once per process, so a proxy set by a
// test would prove nothing.
func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	client, err := New(Options{})
	if err != nil || client.base.Proxy != nil {
		t.Errorf("a proxy function is set, error %v", err)
	}
}

func TestRequestOnAnUncountedConnectionCountsAsSent(t *testing.T) {
	server := rawserver.New(t, func(*rawserver.Conn) {})
	client, _ := New(Options{})
	client.base.DialContext = (&net.Dialer{}).DialContext
	ctx, trace := WithTrace(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server.Addr, strings.NewReader("{}"))
	if _, err := client.RoundTrip(req); err == nil || errors.Is(err, ErrSecondSend) || !trace.Sent() {
		t.Errorf("sent %v, error %v", trace.Sent(), err)
	}
}

func TestRequestThroughAnHTTPSProxyIsCounted(t *testing.T) {
	proxy := rawserver.NewTLS(t, []string{"http/1.1"}, func(c *rawserver.Conn) { c.ReadRequest() })
	client, err := New(Options{Proxy: "https://" + proxy.Addr, RootCAs: proxy.Roots})
	if err != nil {
		t.Fatal(err)
	}
	ctx, trace := WithTrace(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider.invalid/", strings.NewReader("{}"))
	if _, err := client.RoundTrip(req); err == nil || !trace.Sent() || trace.written {
		t.Errorf("sent %v, uncounted %v, error %v", trace.Sent(), trace.written, err)
	}
}
