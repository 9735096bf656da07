// Package rawserver serves tests at the level of connections and frames, where a
// server can do what net/http's never would: take a request and hang up, refuse a
// stream, announce more bytes than it sends. It counts the requests that it saw on
// the wire, whichever connection they came on.
//
// It imports nothing of this module and is for tests only.
package rawserver

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// Server runs one script per connection until the test ends.
type Server struct {
	Addr  string         // host:port
	Roots *x509.CertPool // that trust it; nil without TLS

	listener net.Listener
	script   func(*Conn)
	requests atomic.Int64
	running  sync.WaitGroup
	mu       sync.Mutex
	open     map[net.Conn]bool
	accepted int
	closed   bool
}

// Conn is one connection to the server.
type Conn struct {
	net.Conn
	Number int // 0 for the first that the server accepted
	server *Server
	reader *bufio.Reader
}

// New starts a server without TLS. The script owns its connection, which is closed
// when it returns.
func New(t testing.TB, script func(*Conn)) *Server {
	t.Helper()
	return start(t, &Server{script: script}, nil)
}

// NewTLS starts a server with TLS that offers the protocols, such as "h2".
func NewTLS(t testing.TB, protocols []string, script func(*Conn)) *Server {
	t.Helper()
	certificate, roots := selfSigned(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: protocols}
	return start(t, &Server{script: script, Roots: roots}, config)
}

func start(t testing.TB, s *Server, config *tls.Config) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s.Addr, s.open = listener.Addr().String(), map[net.Conn]bool{}
	if s.listener = listener; config != nil {
		s.listener = tls.NewListener(listener, config)
	}
	s.running.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

// Requests returns how many requests arrived so far, whole or in part.
func (s *Server) Requests() int { return int(s.requests.Load()) }

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if c := s.admit(conn); c != nil {
			s.running.Go(func() { defer s.leave(conn); s.script(c) })
		}
	}
}

func (s *Server) admit(conn net.Conn) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return nil
	}
	s.open[conn] = true
	s.accepted++
	return &Conn{Conn: conn, Number: s.accepted - 1, server: s, reader: bufio.NewReader(conn)}
}

func (s *Server) leave(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

func (s *Server) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// ReadRequest reads one HTTP/1 request with its body. It returns nil when the client
// has gone.
func (c *Conn) ReadRequest() *http.Request {
	req, err := http.ReadRequest(c.reader)
	if err != nil {
		return nil
	}
	c.server.requests.Add(1)
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil
	}
	return req
}

// Reply writes text as it is.
func (c *Conn) Reply(text string) {
	_, _ = io.WriteString(c, text) // a client that has left reads nothing
}

// AwaitClose reads until the client hangs up.
func (c *Conn) AwaitClose() { _, _ = io.Copy(io.Discard, c.reader) }

// Reset makes the coming Close of the connection a TCP reset.
func (c *Conn) Reset() {
	conn := c.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
}
