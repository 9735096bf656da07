package pgproxy_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
)

func TestEncryptionIsRefused(t *testing.T) {
	t.Parallel()
	address := pgproxy.Start(t, testservers.PostgresURL(t)).URL()
	server, err := pgconn.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", addressOf(server))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, ask := range []pgproto3.FrontendMessage{&pgproto3.GSSEncRequest{}, &pgproto3.SSLRequest{}} {
		if answer := firstByte(t, conn, ask); answer != 'N' {
			t.Errorf("%T is answered with %q", ask, answer)
		}
	}
	mustExec(t, mustConnect(t, strings.Replace(address, "sslmode=disable", "sslmode=prefer", 1)), `SELECT 1`)
}

// firstByte sends the message and returns the one byte that answers it.
func firstByte(t *testing.T, conn net.Conn, message pgproto3.FrontendMessage) byte {
	t.Helper()
	text, err := message.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1)
	if _, err := conn.Write(text); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(answer); err != nil {
		t.Fatal(err)
	}
	return answer[0]
}

func TestKeywordStringNamesTheProxyToo(t *testing.T) {
	t.Parallel()
	server, err := pgconn.ParseConfig(testservers.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addressOf(server))
	proxy := pgproxy.Start(t, "host="+server.Host+" port="+port+" user="+server.User+" dbname="+server.Database+" sslmode=disable")
	mustExec(t, mustConnect(t, proxy.URL()), `SELECT 1`)
	if proxy.Statements() != 1 {
		t.Errorf("%d statements passed", proxy.Statements())
	}
}

func addressOf(c *pgconn.Config) string {
	_, address := pgconn.NetworkAddress(c.Host, c.Port)
	return address
}

func TestServersRefusalReachesTheClient(t *testing.T) {
	t.Parallel()
	proxy := pgproxy.Start(t, testservers.PostgresURL(t))
	config, err := pgx.ParseConfig(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Database = "no_such_database"
	_, err = pgx.ConnectConfig(t.Context(), config)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "3D000" {
		t.Errorf("got %v", err)
	}
}

// TestPasswordReachesTheServer: the servers of tests trust everybody, so this one is
// played.
func TestPasswordReachesTheServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	asked := started(t, func() error { return askForPassword(listener, "open sesame") })
	proxy := pgproxy.Start(t, "postgres://me:open%20sesame@"+listener.Addr().String()+"/x?sslmode=disable")
	conn, err := pgconn.Connect(t.Context(), proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := result(t, asked); err != nil {
		t.Error(err)
	}
}

// askForPassword is a server that lets in who knows the password, and waits for the end.
func askForPassword(listener net.Listener, password string) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return err
	}
	server.Send(&pgproto3.AuthenticationCleartextPassword{})
	if err := server.Flush(); err != nil {
		return err
	}
	answer, err := server.Receive()
	if err != nil {
		return err
	}
	if said, ok := answer.(*pgproto3.PasswordMessage); !ok || said.Password != password {
		return errors.New("another password came")
	}
	server.Send(&pgproto3.AuthenticationOk{})
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := server.Flush(); err != nil {
		return err
	}
	_, err = server.Receive() // the client's Terminate
	return err
}
