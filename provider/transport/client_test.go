package transport_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/provider/internal/rawserver"
	"github.com/onejob/onejob/provider/transport"
)

func newTransport(t *testing.T, o transport.Options) *transport.Transport {
	t.Helper()
	client, err := transport.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return client
}

func trusting(server *rawserver.Server) *tls.Config { return &tls.Config{RootCAs: server.Roots} }

// serve starts a server of the scheme that speaks the protocol.
func serve(t *testing.T, scheme, protocol string, script func(*rawserver.Conn)) *rawserver.Server {
	t.Helper()
	if scheme == "http" {
		return rawserver.New(t, script)
	}
	return rawserver.NewTLS(t, []string{protocol}, script)
}

// serveHTTP2 starts a server that ends the first request as the script says and
// answers every later one. An error of the script closes the connection.
func serveHTTP2(t *testing.T, end func(*rawserver.HTTP2, uint32) error) *rawserver.Server {
	t.Helper()
	ended := make(chan struct{}, 1)
	return rawserver.NewTLS(t, []string{"h2"}, func(c *rawserver.Conn) {
		frames := c.HTTP2(t)
		for stream := frames.ReadRequest(); stream != 0; stream = frames.ReadRequest() {
			answer := rawserver.AnswerOK
			select {
			case ended <- struct{}{}:
				answer = end
			default:
			}
			if answer(frames, stream) != nil {
				return
			}
		}
	})
}

// newPost returns the kind of request that Go's transport likes to repeat.
func newPost(ctx context.Context, url string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"text":"hello"}`))
	if err != nil {
		panic(err) // the tests' URLs are constant
	}
	req.Header.Set("Idempotency-Key", "k")
	return req
}

func postTo(ctx context.Context, client *transport.Transport, url string) (sent bool, err error) {
	ctx, trace := transport.WithTrace(ctx)
	resp, err := client.RoundTrip(newPost(ctx, url))
	if err == nil {
		_ = resp.Body.Close()
	}
	return trace.Sent(), err
}

func post(ctx context.Context, client *transport.Transport, scheme string, server *rawserver.Server) (sent bool, err error) {
	return postTo(ctx, client, scheme+"://"+server.Addr)
}

func mustPost(t *testing.T, client http.RoundTripper, scheme string, server *rawserver.Server) {
	t.Helper()
	mustRoundTrip(t, client, newPost(t.Context(), scheme+"://"+server.Addr))
}

func mustRoundTrip(t *testing.T, client http.RoundTripper, req *http.Request) {
	t.Helper()
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	drain(t, resp)
}

func drain(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return body
}
