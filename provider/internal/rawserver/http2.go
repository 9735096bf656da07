package rawserver

import (
	"io"
	"testing"

	"golang.org/x/net/http2"
)

// HTTP2 speaks frames on a connection that has negotiated h2.
type HTTP2 struct {
	*http2.Framer
	conn *Conn
}

// HTTP2 reads the client's preface and sends the server's settings.
func (c *Conn) HTTP2(t testing.TB) *HTTP2 {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.reader, preface); err != nil || string(preface) != http2.ClientPreface {
		t.Errorf("preface %q: %v", preface, err)
	}
	framer := http2.NewFramer(c, c.reader)
	if err := framer.WriteSettings(); err != nil {
		t.Errorf("write settings: %v", err)
	}
	return &HTTP2{Framer: framer, conn: c}
}

// ReadRequest reads frames until a request is complete and returns its stream, or 0
// when the client has gone.
func (h *HTTP2) ReadRequest() uint32 {
	for {
		frame, err := h.ReadFrame()
		if err != nil {
			return 0
		}
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			h.conn.server.requests.Add(1)
			if f.StreamEnded() {
				return f.StreamID
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return f.StreamID
			}
		}
	}
}

// AnswerOK answers the request with status 200 and an empty body.
func AnswerOK(h *HTTP2, stream uint32) error {
	return h.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: []byte{status200}, EndHeaders: true, EndStream: true,
	})
}

// status200 is ":status: 200" in HPACK (RFC 7541, appendix A, index 8).
const status200 = 0x88
