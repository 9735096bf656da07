package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

var errBodyClosed = errors.New("the request's body was closed: it is read once")

// onceBody is a request's body that can be read in one pass. It is never [http.NoBody]
// and never nil: the transport repeats requests without a body.
type onceBody struct {
	io.ReadCloser
	closed atomic.Bool
}

func newOnceBody(req *http.Request) *onceBody {
	if req.Body == nil || req.Body == http.NoBody {
		return &onceBody{ReadCloser: emptyBody{}}
	}
	return &onceBody{ReadCloser: req.Body}
}

func (b *onceBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errBodyClosed
	}
	return b.ReadCloser.Read(p)
}

func (b *onceBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// answerBody ends the request's context with the answer's body, and not before.
type answerBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *answerBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
