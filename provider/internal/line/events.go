package line

import (
	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider/verdict"
)

// Whole returns a stream's answer as if it had come without the stream: the body that
// its last event completed.
func Whole(stream verdict.Received, body []byte) verdict.Received {
	stream.Body = body
	return stream
}

// CutShort returns a stream's answer without a body: its last event did not come.
func CutShort(stream verdict.Received, why string) verdict.Received {
	stream.Body, stream.Cut, stream.CutBy = nil, onejob.ReasonConnectionLost, why
	return stream
}

// Unreadable returns a stream's answer without a body: an event cannot be read.
func Unreadable(stream verdict.Received, why string) verdict.Received {
	stream.Body, stream.Cut, stream.CutBy = nil, onejob.ReasonUnreadable, why
	return stream
}

// Broken returns a stream's answer that ended in an error event. Before any other event
// it is the whole answer; after one it does not say what was done.
func Broken(stream verdict.Received, event []byte, first bool) verdict.Received {
	if first {
		return Whole(stream, event)
	}
	m, _ := verdict.Read(event, maxEventDepth) // an event that cannot be read has no code
	code := "an error"
	if len(m.Codes) > 0 {
		code = m.Codes[0]
	}
	stream.Body, stream.Cut, stream.CutBy = nil, onejob.ReasonServerError, "the stream ended in "+code
	return stream
}

// Fitting returns a stream's answer without its body if that is longer than a result may
// be.
func (l *Line) Fitting(whole verdict.Received) verdict.Received {
	if len(whole.Body) > l.Limits.ResultBytes {
		whole.Body, whole.Length = nil, verdict.TooLongFound
	}
	return whole
}

const maxEventDepth = 200
