package transport

import (
	"crypto/tls"
	"net"
	"sync/atomic"
)

// countedConn counts the bytes that its socket took.
type countedConn struct {
	net.Conn
	taken atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.taken.Add(int64(n))
	return n, err
}

// countedUnder returns the counting connection at the bottom of conn, under the TLS
// layers of the server and of an https proxy, or nil for a connection that was not
// dialled here.
func countedUnder(conn net.Conn) *countedConn {
	for {
		switch c := conn.(type) {
		case *countedConn:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// sharesStreams says that other requests use the connection at the same time.
func sharesStreams(conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	return ok && c.ConnectionState().NegotiatedProtocol == "h2"
}

// closeUnshared closes a connection that carries no other request.
func closeUnshared(conn net.Conn) {
	if !sharesStreams(conn) {
		_ = conn.Close() // the request that it was for has failed already
	}
}
