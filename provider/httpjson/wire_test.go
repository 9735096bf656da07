package httpjson_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/internal/rawserver"
	"golang.org/x/net/http2"
)

// wire is how a connection goes on after a whole request, and what the call becomes.
type wire struct {
	after func(*rawserver.Conn)
	want  provider.Answer
}

var wireTable = map[string]wire{
	"closed":         {func(*rawserver.Conn) {}, unknown(onejob.ReasonConnectionLost)},
	"reset":          {(*rawserver.Conn).Reset, unknown(onejob.ReasonConnectionLost)},
	"not HTTP":       {replying("SSH-2.0\r\n\r\n"), unknown(onejob.ReasonConnectionLost)},
	"head cut":       {replying("HTTP/1.1 200 OK\r\nContent-Le"), unknown(onejob.ReasonConnectionLost)},
	"body cut":       {replying("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), unknown(onejob.ReasonConnectionLost)},
	"chunks cut":     {replying("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), unknown(onejob.ReasonConnectionLost)},
	"refusal cut":    {replying("HTTP/1.1 429 No\r\nContent-Length: 100\r\n\r\n{}"), unknown(onejob.ReasonConnectionLost)},
	"number cut":     {replying("HTTP/1.1 200 OK\r\n\r\n12"), unknown(onejob.ReasonUnreadable)},
	"object to end":  {replying("HTTP/1.1 200 OK\r\n\r\n{}"), succeeded("{}")},
	"202 cut":        {replying("HTTP/1.1 202 OK\r\nContent-Length: 100\r\n\r\n{}"), unknown(onejob.ReasonConnectionLost)},
	"202 cut, named": {replying("HTTP/1.1 202 OK\r\nLocation: /r/1\r\nContent-Length: 100\r\n\r\n{}"), accepted("/r/1")},
	"header bomb":    {replying("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 400)), unknown(onejob.ReasonConnectionLost)},
	"upgrade": {func(c *rawserver.Conn) {
		c.Reply("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		c.AwaitClose()
	}, unknown(onejob.ReasonServerError)},

	"too long, declared":          {replying("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n"), failed(onejob.ReasonTooLarge)},
	"too long, found":             {replying("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat(" ", 101)), unknown(onejob.ReasonTooLarge)},
	"as long as allowed":          {replying("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + pad("{}", 100)), succeeded(pad("{}", 100))},
	"202 too long, declared":      {replying("HTTP/1.1 202 OK\r\nContent-Length: 101\r\n\r\n"), unknown(onejob.ReasonTooLarge)},
	"rejected too long, declared": {replying("HTTP/1.1 400 No\r\nContent-Length: 101\r\n\r\n"), failed(onejob.ReasonTooLarge)},
	"refused too long, declared":  {replying("HTTP/1.1 503 No\r\nContent-Length: 101\r\n\r\n"), unknown(onejob.ReasonTooLarge)},
	"broken too long, declared":   {replying("HTTP/1.1 500 No\r\nContent-Length: 101\r\n\r\n"), unknown(onejob.ReasonServerError)},
}

func replying(text string) func(*rawserver.Conn) {
	return func(c *rawserver.Conn) { c.Reply(text) }
}

func pad(text string, length int) string { return text + strings.Repeat(" ", length-len(text)) }

func TestEndOfAConnectionMeansWhatIsCertain(t *testing.T) {
	for name, row := range wireTable {
		t.Run(name, func(t *testing.T) {
			server := rawserver.New(t, func(c *rawserver.Conn) { c.ReadRequest(); row.after(c) })
			adapter := newAdapter(t, httpjson.Config{URL: "http://" + server.Addr, Limits: onejob.Limits{ResultBytes: 100}})
			mustAnswer(t, adapter.Call(t.Context(), call), row.want)
			if server.Requests() != 1 {
				t.Errorf("the wire saw %d requests", server.Requests())
			}
		})
	}
}

func TestBrokenReusedConnectionLeavesOneUnknownRequest(t *testing.T) {
	server := rawserver.New(t, func(c *rawserver.Conn) {
		c.ReadRequest()
		c.Reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		c.ReadRequest()
	})
	adapter := newAdapter(t, httpjson.Config{URL: "http://" + server.Addr, IdempotencyHeader: "Idempotency-Key"})
	mustAnswer(t, adapter.Call(t.Context(), call), succeeded("{}"))
	mustAnswer(t, adapter.Call(t.Context(), call), unknown(onejob.ReasonConnectionLost))
	if server.Requests() != 2 {
		t.Errorf("the wire saw %d requests for two calls", server.Requests())
	}
}

func notSent() provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonNotSent, Retryable: true}
}

func TestRefusedHTTP2StreamIsNotSent(t *testing.T) {
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
			adapter := newAdapter(t, httpjson.Config{URL: "https://" + server.Addr, RootCAs: server.Roots, IdempotencyHeader: "Idempotency-Key"})
			mustAnswer(t, adapter.Call(t.Context(), call), notSent())
			if server.Requests() != 1 {
				t.Errorf("the wire saw %d requests", server.Requests())
			}
		})
	}
}

func TestCallWithoutAConnectionIsNotSent(t *testing.T) {
	untrusted := rawserver.NewTLS(t, nil, (*rawserver.Conn).AwaitClose)
	proxy := rawserver.New(t, func(c *rawserver.Conn) {
		c.ReadRequest()
		c.Reply("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
	})
	for name, config := range map[string]httpjson.Config{
		"no such name": {URL: "http://provider.invalid/"},
		"refused":      {URL: "http://" + closedAddress},
		"untrusted":    {URL: "https://" + untrusted.Addr},
		"proxy":        {URL: "https://provider.invalid/", Proxy: "http://" + proxy.Addr},
	} {
		t.Run(name, func(t *testing.T) {
			mustAnswer(t, newAdapter(t, config).Call(t.Context(), call), notSent())
		})
	}
}

func TestEndedContextBeforeTheRequestIsNotSent(t *testing.T) {
	server := rawserver.New(t, func(c *rawserver.Conn) { c.ReadRequest() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	mustAnswer(t, newAdapter(t, httpjson.Config{URL: "http://" + server.Addr}).Call(ctx, call), notSent())
}

func TestEndedContextAfterTheRequestIsATimeout(t *testing.T) {
	for name, answer := range map[string]string{
		"silence":   "",
		"slow body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := rawserver.New(t, func(c *rawserver.Conn) {
				c.ReadRequest()
				c.Reply(answer)
				cancel()
				c.AwaitClose()
			})
			mustAnswer(t, newAdapter(t, httpjson.Config{URL: "http://" + server.Addr}).Call(ctx, call), unknown(onejob.ReasonTimeout))
		})
	}
}

func TestDetailShowsNoSecret(t *testing.T) {
	const token, query = "correct-horse", "battery-staple"
	server := rawserver.New(t, func(c *rawserver.Conn) {
		req := c.ReadRequest()
		body := fmt.Sprintf(`{"error":{"code":"invalid_request","message":"cannot take\n%s for %s"}}`, req.Header.Get("X-Tenant"), req.RequestURI)
		c.Reply(fmt.Sprintf("HTTP/1.1 400 No\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		c.AwaitClose()
	})
	adapter := newAdapter(t, httpjson.Config{
		URL:     "http://" + server.Addr + "/v1/run?staple=" + query,
		Headers: map[string]string{"X-Tenant": token},
	})
	const want = "status 400: invalid_request: cannot take *** for /v1/run?***"
	if got := adapter.Call(t.Context(), call).Detail; got != want {
		t.Errorf("detail %q, want %q", got, want)
	}
}

func mustAnswer(t *testing.T, got, want provider.Answer) {
	t.Helper()
	same := got.Certainty == want.Certainty && got.Reason == want.Reason && got.Retryable == want.Retryable &&
		got.Reference == want.Reference && string(got.Result) == string(want.Result)
	if !same {
		t.Errorf("answer %+v, want %+v", got, want)
	}
}

// closedAddress is where nobody listens: below the ports that servers of tests get.
const closedAddress = "127.0.0.1:1"
