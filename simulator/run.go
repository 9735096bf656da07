package simulator

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// call is a request to /v1/run.
type call struct {
	provider string // the NAME in the path
	job      string
	attempt  int
	key      string
	length   int               // of the input, in bytes
	digest   [sha256.Size]byte // of the input
	directives
}

type directives = Directives

// name is how the plan knows the call.
func (c call) name() string { return cmp.Or(c.As, c.job, c.key) }

func (s *Simulator) run(w http.ResponseWriter, r *http.Request) {
	select {
	case s.inFlight <- struct{}{}:
		defer func() { <-s.inFlight }()
	default:
		problem(w, http.StatusServiceUnavailable, errors.New("too many requests are in flight"))
		return
	}
	c, err := s.readCall(w, r)
	if err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	s.receive(w, r, c)
}

// receive counts the call and has it performed.
func (s *Simulator) receive(w http.ResponseWriter, r *http.Request, c call) {
	era, plan := s.current()
	ordinal, err := era.board.receive(c)
	if err != nil {
		problem(w, http.StatusInsufficientStorage, err)
		return
	}
	if c.onlyNames() {
		drawn := plan.Draw(c.name(), ordinal)
		drawn.As = c.As
		c.directives = drawn
	}
	if s.options.HonourKeys && c.key != "" {
		era.performOnce(w, r, c)
		return
	}
	era.perform(w, r, c, func(reply) {})
}

func (s *Simulator) readCall(w http.ResponseWriter, r *http.Request) (call, error) {
	input, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostInputBytes))
	if err != nil {
		return call{}, err
	}
	c := call{
		provider: r.PathValue("name"), job: r.Header.Get("Onejob-Job"), key: r.Header.Get(s.options.KeyHeader),
		length: len(input), digest: sha256.Sum256(input),
	}
	if text := r.Header.Get("Onejob-Attempt"); text != "" {
		if c.attempt, err = strconv.Atoi(text); err != nil {
			return call{}, errors.New("header Onejob-Attempt is not a number")
		}
	}
	if c.directives, err = readDirectives(input); c.Only != "" && c.Only != c.provider {
		c.directives = directives{As: c.As}
	}
	return c, err
}

// performOnce performs a call whose key is honoured.
func (e *era) performOnce(w http.ResponseWriter, r *http.Request, c call) {
	before, err := e.kept.begin(c)
	switch {
	case errors.Is(err, errKeyReused):
		problem(w, http.StatusUnprocessableEntity, err)
	case errors.Is(err, errTooManyReplies):
		problem(w, http.StatusInsufficientStorage, err)
	case err != nil:
		problem(w, http.StatusConflict, err)
	case before != nil:
		e.board.replay()
		before.replayed().write(w)
	default:
		defer e.kept.forget(c)
		e.perform(w, r, c, func(answer reply) { e.kept.keep(c, answer) })
	}
}

// perform takes a call through its life; executed is told of the reply to an executed
// call before anyone can see that it was. A client that leaves before its call is
// executed, and a reset, end the call there.
func (e *era) perform(w http.ResponseWriter, r *http.Request, c call, executed func(reply)) {
	e.pause(r, time.Duration(c.Latency))
	e.hold(r, c.Hold)
	answer := c.reply()
	if c.executes() {
		executed(answer)
		e.board.execute(c)
	}
	if c.ExecuteThenDrop {
		hangUp()
	}
	e.hold(r, c.HoldAfter)
	if c.Silence {
		e.hold(r, cmp.Or(c.job, "silence"))
	}
	e.pause(r, time.Duration(c.Late))
	if c.CutBody {
		answer.writeHalf(w)
	}
	answer.write(w)
}

// pause waits, or hangs up if the client leaves.
func (e *era) pause(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		hangUp()
	case <-e.ended:
		hangUp()
	}
}

// hold waits until the name is released, or hangs up if the client leaves.
func (e *era) hold(r *http.Request, name string) {
	if name == "" {
		return
	}
	released, err := e.gates.enter(name)
	if err != nil {
		hangUp()
	}
	defer e.gates.leave(name)
	select {
	case <-released:
	case <-r.Context().Done():
		hangUp()
	case <-e.ended:
		hangUp()
	}
}

// hangUp closes the connection without a reply. It does not return.
func hangUp() { panic(http.ErrAbortHandler) }
