package api

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
)

// What bodies may take of memory: all at once, and each without being counted.
const (
	mostBodyBytes = 512 << 20
	freeBodyBytes = 64 << 10
)

// mostEnvelopeBytes is what a body may have around its payload.
const mostEnvelopeBytes = 64 << 10

// memory is what bodies that are being read may still take.
type memory struct {
	mu   sync.Mutex
	left int
}

func (m *memory) take(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > m.left {
		return false
	}
	m.left -= n
	return true
}

func (m *memory) give(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += n
}

// readBody reads the request's body, of application/json and at most that long, within the
// time that the server gives a request.
func (d *Door) readBody(x *exchange, most int) error {
	if err := checkMedia(x.request); err != nil {
		return err
	}
	if x.request.ContentLength > int64(most) {
		return newProblem(tooLarge, "the body has %d bytes: the limit here is %d", x.request.ContentLength, most)
	}
	body, err := d.read(http.MaxBytesReader(x.writer, x.request.Body, int64(most)))
	if errors.Is(err, errNoMemory) {
		return newProblem(unavailable, "too many long bodies are being read at this moment").with("Retry-After", "1")
	}
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return newProblem(tooLarge, "the body is longer than %d bytes, the limit here", most)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return newProblem(requestTimeout, "the body did not arrive within %v: send it at once", d.options.Timeouts.Read).with("Connection", "close")
	}
	if err != nil {
		return newProblem(invalidRequest, "the body cannot be read: it ended early, or its encoding is broken").with("Connection", "close")
	}
	x.body = body
	return nil
}

var errNoMemory = errors.New("no memory for the body")

// read reads all of the body. While it grows it is counted against what all bodies may take.
func (d *Door) read(body io.Reader) ([]byte, error) {
	var read bytes.Buffer
	counted := 0
	defer func() { d.bodies.give(counted) }()
	for {
		n, err := io.CopyN(&read, body, freeBodyBytes)
		if errors.Is(err, io.EOF) {
			return read.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
		if !d.bodies.take(int(n)) {
			return nil, errNoMemory
		}
		counted += int(n)
	}
}

// checkMedia refuses what is not JSON as it stands. A form's types are refused too, so that no
// page of a stranger can make a browser send one.
func checkMedia(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(given)
	charset := parameters["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") || len(r.Header.Values("Content-Type")) != 1 {
		return newProblem(unsupportedMedia, "Content-Type is %q: send application/json in UTF-8 with the header Content-Type: application/json", onejob.Shorten(given, 100))
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return newProblem(unsupportedMedia, "Content-Encoding is %q: send the body as it is", onejob.Shorten(encoding, 100))
	}
	return nil
}

// decode reads the request's body into v, and refuses what v does not know.
func decode(x *exchange, v any) error { return wire.Decode(x.body, v) }

// idempotencyKey returns the request's key.
func idempotencyKey(header http.Header) (string, error) {
	key, err := wire.Key(header.Values(wire.KeyHeader))
	if e, ok := errors.AsType[*wire.KeyError](err); ok {
		t := keyInvalid
		if e.Missing {
			t = keyMissing
		}
		return "", newProblem(t, "%s", e.Line)
	}
	return key, err
}
