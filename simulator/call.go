package simulator

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// call is a request to a provider.
type call struct {
	format   format
	provider string // the NAME in the path
	job      string
	attempt  int
	key      string
	url      string            // at which it came
	callback string            // URL
	length   int               // of the input, in bytes
	digest   [sha256.Size]byte // of the input
	script   *Script           // that it follows, in place of directives; nil: none
	directives
}

type directives = Directives

// name is how the plan knows the call.
func (c call) name() string { return cmp.Or(c.As, c.job, c.key) }

// readCall reads a request in a format, and checks it.
func (s *Simulator) readCall(w http.ResponseWriter, r *http.Request, f format) (call, error) {
	input, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostInputBytes))
	if err != nil {
		return call{}, err
	}
	c := s.addressee(r, f)
	if !json.Valid(input) {
		return call{}, errors.New("the body is not JSON")
	}
	if c.format, err = f.read(input); err != nil {
		return call{}, err
	}
	c.length, c.digest = len(input), sha256.Sum256(input)
	if c.attempt, err = readAttempt(r.Header.Get(attemptHeader)); err != nil {
		return call{}, fmt.Errorf("header %s: %w", attemptHeader, err)
	}
	if c.directives, err = readDirectives(r.Header, input, f); err != nil {
		return call{}, err
	}
	if c.directives = c.applying(r); c.onlyNames() {
		_, plan := s.current()
		c.script = plan.script(c.provider, input)
	}
	return c, s.checkCallback(c)
}

// applying returns the directives that are for the call: none of another provider, and
// a refusal in place of any if its API key or its model is none.
func (c call) applying(r *http.Request) directives {
	switch {
	case hasBadKey(r):
		return directives{As: c.As, Status: http.StatusUnauthorized}
	case unknownModel(c.format.model()):
		return directives{As: c.As, Status: http.StatusNotFound, ErrorCode: c.format.modelNotFound()}
	case c.Only != "" && c.Only != c.provider:
		return directives{As: c.As}
	}
	return c.directives
}

// addressee reads who is meant, and on whose behalf.
func (s *Simulator) addressee(r *http.Request, f format) call {
	return call{
		format:   f,
		provider: f.named(r.PathValue("name")),
		url:      "http://" + r.Host + strings.TrimSuffix(r.URL.EscapedPath(), "/"),
		job:      r.Header.Get(jobHeader),
		key:      r.Header.Get(s.options.KeyHeader),
		callback: r.Header.Get(callbackHeader),
	}
}

// The headers by which a caller names its call.
const (
	jobHeader      = "Onejob-Job"
	attemptHeader  = "Onejob-Attempt"
	callbackHeader = "Onejob-Callback"
)

func readAttempt(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	attempt, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New("not a number")
	}
	return attempt, nil
}

// tells says whether the call's outcome is told by a callback.
func (c call) tells() bool { return c.Callback != nil && c.callback != "" }

func (s *Simulator) checkCallback(c call) error {
	if !c.tells() {
		return nil
	}
	if s.signer == nil {
		return errors.New("a callback was asked for, and the simulator has no secret to sign it")
	}
	address, err := url.Parse(c.callback)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return errors.New("header " + callbackHeader + " is no HTTP URL")
	}
	return nil
}
