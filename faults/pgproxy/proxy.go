package pgproxy

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const dialPatience = 5 * time.Second

// Proxy forwards connections to one Postgres server. It may be used concurrently.
type Proxy struct {
	target   string // as the test named it
	server   *pgconn.Config
	listener net.Listener
	running  sync.WaitGroup

	traffic sync.RWMutex  // held for reading while a message is forwarded
	paused  chan struct{} // closed by Resume; nil while messages pass

	mu         sync.Mutex // guards all below
	sessions   map[*session]struct{}
	closed     bool
	refusing   bool
	rules      []*rule
	commits    int
	statements int
	refusals   int
}

// Start returns a proxy in front of the server that targetURL names, a Postgres URL or
// keyword string. It ends with the test, and cuts what is still connected then.
func Start(t testing.TB, targetURL string) *Proxy {
	t.Helper()
	server, err := pgconn.ParseConfig(targetURL)
	if err != nil {
		t.Fatalf("pgproxy: read the target's URL: %v", err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgproxy: listen: %v", err)
	}
	p := &Proxy{target: targetURL, server: server, listener: listener, sessions: map[*session]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// URL returns the target's URL with the proxy's address in place of the server's.
func (p *Proxy) URL() string {
	address := p.listener.Addr().(*net.TCPAddr)
	if !strings.HasPrefix(p.target, "postgres://") && !strings.HasPrefix(p.target, "postgresql://") {
		return p.target + " host=127.0.0.1 sslmode=disable port=" + portOf(address)
	}
	u, err := url.Parse(p.target)
	if err != nil {
		panic("pgproxy: " + err.Error()) // ParseConfig read it
	}
	u.Host = address.String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String()
}

func portOf(address *net.TCPAddr) string {
	_, port, _ := net.SplitHostPort(address.String())
	return port
}

// Commits returns the number of transactions that the server committed and said so,
// implicit ones and those that only read included.
func (p *Proxy) Commits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.commits
}

// Statements returns the number of statements that were forwarded, without those that
// begin or end a transaction.
func (p *Proxy) Statements() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements
}

// Refusals returns the number of connections that Refuse has cut as they came.
func (p *Proxy) Refusals() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals
}

// Pause lets nothing pass from its return on, in either direction, until Resume: what is
// sent waits, and new connections hang.
func (p *Proxy) Pause() {
	p.traffic.Lock()
	defer p.traffic.Unlock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
}

// Refuse cuts every connection, and each new one at once, until Resume: the server is
// away.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refusing = true
	p.mu.Unlock()
	p.CutAll()
}

// Resume ends Pause and Refuse.
func (p *Proxy) Resume() {
	p.mu.Lock()
	p.refusing = false
	p.mu.Unlock()
	p.traffic.Lock()
	defer p.traffic.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

// CutAll closes both sides of every connection there is.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.sessions {
		s.cut()
	}
}

// pass forwards by send, once messages may pass. It fails when the session is cut.
func (p *Proxy) pass(s *session, send func() error) error {
	for {
		p.traffic.RLock()
		paused := p.paused
		if paused == nil {
			err := send()
			p.traffic.RUnlock()
			return err
		}
		p.traffic.RUnlock()
		select {
		case <-paused:
		case <-s.done:
			return errCut
		}
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // the listener is closed
		}
		s := newSession(p, client)
		if !p.admit(s) {
			s.cut()
			continue
		}
		p.running.Go(func() {
			defer p.forget(s)
			defer s.cut()
			s.run()
		})
	}
}

func (p *Proxy) admit(s *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusing || p.closed {
		p.refusals++
		return false
	}
	p.sessions[s] = struct{}{}
	return true
}

func (p *Proxy) forget(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, s)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // it was open
	p.CutAll()
	p.running.Wait()
}

// dial connects to the server.
func (p *Proxy) dial() (net.Conn, error) {
	network, address := pgconn.NetworkAddress(p.server.Host, p.server.Port)
	return net.DialTimeout(network, address, dialPatience)
}
