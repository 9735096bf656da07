package postgres_test

import (
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// A pooler in transaction mode hands each transaction of a connection to another session
// of Postgres, so that a prepared statement with a name is not where it was left.
func TestPoolerInTransactionModeLosesNothing(t *testing.T) {
	t.Parallel()
	direct := newRig(t)
	behind := direct.through(t, startPooler(t, direct))
	var jobs []func()
	for range 8 {
		jobs = append(jobs, func() {
			for range 4 {
				a := behind.answered(t)
				if c, err := behind.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1); err != nil || !c.Won {
					t.Errorf("complete: %+v, %v", c, err)
				}
			}
		})
	}
	together(jobs...)
}

// pooler gives the sessions to its clients' transactions in turn.
type pooler struct {
	sessions chan *pgconn.HijackedConn
	clients  sync.WaitGroup
}

// startPooler returns the URL of a pooler in front of the rig's database, which has two
// sessions and ends with the test.
func startPooler(t *testing.T, r rig) string {
	t.Helper()
	p := &pooler{sessions: make(chan *pgconn.HijackedConn, 2)}
	for range cap(p.sessions) {
		conn, err := pgconn.ConnectConfig(t.Context(), &r.hand.Config().ConnConfig.Config)
		if err != nil {
			t.Fatal(err)
		}
		session, err := conn.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Conn.Close() })
		p.sessions <- session
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepting := make(chan struct{})
	go func() { defer close(accepting); p.accept(listener) }()
	t.Cleanup(func() { _ = listener.Close(); <-accepting; p.clients.Wait() })
	at, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	at.Host = listener.Addr().String()
	return at.String()
}

func (p *pooler) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.clients.Go(func() {
			defer func() { _ = client.Close() }()
			_ = p.serve(pgproto3.NewBackend(client, client), client) // the client hears of it
		})
	}
}

func (p *pooler) serve(backend *pgproto3.Backend, client net.Conn) error {
	for {
		startup, err := backend.ReceiveStartupMessage()
		if err != nil {
			return err
		}
		if _, ok := startup.(*pgproto3.StartupMessage); ok {
			break
		}
		if _, err := client.Write([]byte("N")); err != nil {
			return err
		}
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for {
		if err := backend.Flush(); err != nil {
			return err
		}
		if err := p.transaction(backend); err != nil {
			return err
		}
	}
}

// transaction hands one transaction of a client to the session that is next.
func (p *pooler) transaction(backend *pgproto3.Backend) error {
	first, err := backend.Receive()
	if err != nil {
		return err
	}
	session := <-p.sessions
	defer func() { p.sessions <- session }()
	for message := first; ; {
		if _, ok := message.(*pgproto3.Terminate); ok {
			return net.ErrClosed
		}
		session.Frontend.Send(message)
		switch message.(type) {
		case *pgproto3.Sync, *pgproto3.Query:
			if err := session.Frontend.Flush(); err != nil {
				return err
			}
			idle, err := relayAnswer(session.Frontend, backend)
			if err != nil || idle {
				return err
			}
		}
		if message, err = backend.Receive(); err != nil {
			return err
		}
	}
}

// relayAnswer returns whether the transaction is over.
func relayAnswer(from *pgproto3.Frontend, to *pgproto3.Backend) (idle bool, err error) {
	for {
		message, err := from.Receive()
		if err != nil {
			return false, err
		}
		to.Send(message)
		if ready, ok := message.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus == 'I', to.Flush()
		}
	}
}
