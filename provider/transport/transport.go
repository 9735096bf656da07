// Package transport carries requests to providers. It promises one thing: a request
// goes onto the wire at most once, and afterwards its [Trace] says whether a byte of
// it may have reached the server.
//
// Go's own transport repeats a request in three places: a POST with an
// Idempotency-Key on a reused HTTP/1 connection that broke (Request.isReplayable),
// anything on a reused connection that broke before a byte was written
// (persistConn.shouldRetryRequest), and an HTTP/2 stream after REFUSED_STREAM, GOAWAY
// or a peer's PROTOCOL_ERROR (http2shouldRetryRequest). All three need a body that is
// empty or can be had again from Request.GetBody. So every request leaves here with a
// body that is neither, whatever its method and headers. Behind that stands a second
// guard: a connection handed to a request that was already written ends the call.
//
// What remains is the choice of another connection before anything was written, which
// repeats nothing.
//
// Redirects are not followed, a proxy is used only where one is configured, and bodies
// arrive as they were sent, compressed or not. It imports nothing of this module.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// ErrSecondSend says that a call tried to go onto the wire a second time and was kept
// from it.
var ErrSecondSend = errors.New("a request is sent once: the second send was stopped")

// Bounds of what happens before a request is written and in front of its answer. The
// time for the answer itself is the context's.
const (
	dialTimeout       = 10 * time.Second
	handshakeTimeout  = 10 * time.Second
	idleTimeout       = 90 * time.Second
	pingAfter         = 30 * time.Second // of silence on an HTTP/2 connection
	pingTimeout       = 15 * time.Second
	mostHeaderBytes   = 256 << 10 // of an answer
	mostIdlePerServer = 64
)

// Options say how to reach the servers. The zero value dials them directly and trusts
// the system's authorities.
type Options struct {
	Proxy   string         // URL of an http, https or socks5 proxy; empty: none, whatever the environment says
	RootCAs *x509.CertPool // nil: the system's
}

// Transport is an [http.RoundTripper] that sends each request at most once.
type Transport struct{ base *http.Transport }

// New returns a transport. It fails if the proxy is not a URL that it can use.
func New(o Options) (*Transport, error) {
	proxy, err := proxyFunc(o.Proxy)
	if err != nil {
		return nil, err
	}
	return &Transport{base: &http.Transport{
		Proxy:                  proxy,
		DialContext:            dialCounted,
		TLSClientConfig:        &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    mostIdlePerServer,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: mostHeaderBytes,
	}}, nil
}

func proxyFunc(text string) (func(*http.Request) (*url.URL, error), error) {
	if text == "" {
		return nil, nil
	}
	proxy, err := url.Parse(text)
	if err != nil || proxy.Host == "" {
		return nil, errors.New("the proxy is not a URL: write it as http://host:port")
	}
	switch proxy.Scheme {
	case "http", "https", "socks5", "socks5h":
		return http.ProxyURL(proxy), nil
	}
	return nil, fmt.Errorf("proxy scheme %q is not supported: use http, https or socks5", proxy.Scheme)
}

// RoundTrip sends the request at most once. A context that carries a [Trace] learns
// from it what is certain, and can carry one request only: a second one, such as a
// retry by a client library, fails with [ErrSecondSend] and is not sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := traceOf(req.Context())
	if !trace.claim() {
		closeBody(req)
		return nil, ErrSecondSend
	}
	once := req.WithContext(req.Context())
	once.Body, once.GetBody = newOnceBody(req), nil
	return t.send(once, trace)
}

// send sends the request under the trace's guard.
func (t *Transport) send(req *http.Request, trace *Trace) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	resp, err := t.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace.hooks(cancel))))
	trace.settle(ctx, err)
	if err != nil {
		defer cancel(nil)
		if errors.Is(context.Cause(ctx), ErrSecondSend) {
			return nil, fmt.Errorf("%w: %w", ErrSecondSend, err)
		}
		return nil, err
	}
	resp.Body = &answerBody{ReadCloser: resp.Body, cancel: cancel}
	return resp, nil
}

// Client returns a client over the transport that follows no redirect: a 3xx is an
// answer like any other.
func (t *Transport) Client() *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CloseIdle closes the connections that carry no request.
func (t *Transport) CloseIdle() { t.base.CloseIdleConnections() }

func dialCounted(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn}, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nothing of it was or will be sent
	}
}
