package pgproxy

import (
	"errors"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// errCut ends a session whose connection is, or is to be, closed.
var errCut = errors.New("pgproxy: the connection is cut")

// session is one client's connection and the proxy's to the server.
type session struct {
	proxy *Proxy
	done  chan struct{} // closed when the session is cut
	once  sync.Once
	*conversation

	mu     sync.Mutex // guards server until it is set
	client net.Conn
	server net.Conn

	toClient *pgproto3.Backend
	toServer *pgproto3.Frontend
}

func newSession(p *Proxy, client net.Conn) *session {
	return &session{
		proxy: p, client: client, done: make(chan struct{}), conversation: newConversation(),
		toClient: pgproto3.NewBackend(client, client),
	}
}

// cut closes both sides.
func (s *session) cut() {
	s.once.Do(func() { close(s.done) })
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.client.Close() // it may be closed already
	if s.server != nil {
		_ = s.server.Close() // likewise
	}
}

// run speaks with both sides until one of them ends or the session is cut.
func (s *session) run() {
	startup, err := s.receiveStartup()
	if err != nil || s.connect() != nil {
		return
	}
	if cancel, ok := startup.(*pgproto3.CancelRequest); ok {
		s.forwardCancel(cancel)
		return
	}
	s.toServer.Send(startup)
	if s.proxy.pass(s, s.toServer.Flush) != nil || s.authenticate() != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() {
		defer s.cut()
		_ = s.relayAnswers() // the session ends, whatever ended it
	})
	_ = s.relayQuestions() // likewise
	s.cut()
	answers.Wait()
}

// receiveStartup refuses encryption and returns what the client wants then.
func (s *session) receiveStartup() (pgproto3.FrontendMessage, error) {
	for {
		msg, err := s.toClient.ReceiveStartupMessage()
		if err != nil {
			return nil, err
		}
		switch msg.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		default:
			return msg, nil
		}
	}
}

// connect connects to the server, once messages may pass.
func (s *session) connect() error {
	return s.proxy.pass(s, func() error {
		server, err := s.proxy.dial()
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.server = server
		s.mu.Unlock()
		s.toServer = pgproto3.NewFrontend(server, server)
		select {
		case <-s.done:
			_ = server.Close() // cut came first
			return errCut
		default:
			return nil
		}
	})
}

// forwardCancel asks the server to cancel, and waits until it has taken it.
func (s *session) forwardCancel(cancel *pgproto3.CancelRequest) {
	s.toServer.Send(cancel)
	if s.proxy.pass(s, s.toServer.Flush) == nil {
		_, _ = io.Copy(io.Discard, s.server) // the server answers by closing
	}
}

// authenticate relays question and answer until the server has let the client in.
func (s *session) authenticate() error {
	for {
		msg, err := s.toServer.Receive()
		if err != nil {
			return err
		}
		s.toClient.Send(msg)
		if err := s.proxy.pass(s, s.toClient.Flush); err != nil {
			return err
		}
		switch msg.(type) {
		case *pgproto3.AuthenticationOk:
			return nil
		case *pgproto3.ErrorResponse:
			return errCut
		}
		if asksBack(msg) {
			if err := s.relayPassword(); err != nil {
				return err
			}
		}
	}
}

// asksBack says that the server waits for the client's answer.
func asksBack(msg pgproto3.BackendMessage) bool {
	switch msg.(type) {
	case *pgproto3.AuthenticationCleartextPassword, *pgproto3.AuthenticationMD5Password, *pgproto3.AuthenticationSASL,
		*pgproto3.AuthenticationSASLContinue, *pgproto3.AuthenticationGSS, *pgproto3.AuthenticationGSSContinue:
		return true
	}
	return false
}

func (s *session) relayPassword() error {
	if err := s.toClient.SetAuthType(s.toServer.GetAuthType()); err != nil {
		return err
	}
	msg, err := s.toClient.Receive()
	if err != nil {
		return err
	}
	s.toServer.Send(msg)
	return s.proxy.pass(s, s.toServer.Flush)
}
