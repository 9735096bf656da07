package simulator

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// call is a request to a provider.
type call struct {
	provider string // the NAME in the path
	job      string
	attempt  int
	key      string
	callback string            // URL
	length   int               // of the input, in bytes
	digest   [sha256.Size]byte // of the input
	directives
}

type directives = Directives

// name is how the plan knows the call.
func (c call) name() string { return cmp.Or(c.As, c.job, c.key) }

func (c call) idPrefix() string { return "run_" }

// readCall reads a request and checks it.
func (s *Simulator) readCall(w http.ResponseWriter, r *http.Request) (call, error) {
	input, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostInputBytes))
	if err != nil {
		return call{}, err
	}
	c := s.addressee(r)
	c.length, c.digest = len(input), sha256.Sum256(input)
	if c.attempt, err = readAttempt(r.Header.Get(attemptHeader)); err != nil {
		return call{}, fmt.Errorf("header %s: %w", attemptHeader, err)
	}
	if c.directives, err = readDirectives(r.Header, input); err != nil {
		return call{}, err
	}
	if c.Only != "" && c.Only != c.provider {
		c.directives = directives{As: c.As}
	}
	return c, s.checkCallback(c)
}

// addressee reads who is meant, and on whose behalf.
func (s *Simulator) addressee(r *http.Request) call {
	return call{
		provider: r.PathValue("name"),
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
