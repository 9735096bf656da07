package simulator

import (
	"errors"
	"net/http"
)

// take takes requests of a provider's client in, in a format.
func (s *Simulator) take(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.inFlight <- struct{}{}:
			defer func() { <-s.inFlight }()
		default:
			refuse(w, f, http.StatusServiceUnavailable, errors.New("too many requests are in flight"))
			return
		}
		c, err := s.readCall(w, r, f)
		if err != nil {
			refuse(w, f, http.StatusBadRequest, err)
			return
		}
		s.receive(w, r, c)
	}
}

// receive counts the call and has it performed.
func (s *Simulator) receive(w http.ResponseWriter, r *http.Request, c call) {
	era, plan := s.current()
	ordinal, err := era.board.receive(c)
	if err != nil {
		refuse(w, c.format, http.StatusInsufficientStorage, err)
		return
	}
	if c.onlyNames() {
		drawn := plan.Draw(c.name(), ordinal)
		if c.script != nil {
			drawn = era.scripts.answer(c.provider, c.script)
		}
		drawn.As = c.As
		c.directives = drawn
		if err := s.checkCallback(c); err != nil {
			refuse(w, c.format, http.StatusBadRequest, err)
			return
		}
	}
	c.Accept = c.format.accepts(c.Accept)
	if c.key != "" && s.honoursKey(c, plan) {
		era.performOnce(w, r, c)
		return
	}
	era.perform(w, r, c, func(reply) {})
}

// honoursKey asks the directive, else the plan for the provider, else the options.
func (s *Simulator) honoursKey(c call, plan Plan) bool {
	if c.HonourKey != nil {
		return *c.HonourKey
	}
	if honours, ok := plan.HonourKeys[c.provider]; ok {
		return honours
	}
	return s.options.HonourKeys
}

// performOnce performs a call whose key is honoured.
func (e *era) performOnce(w http.ResponseWriter, r *http.Request, c call) {
	before, err := e.kept.begin(c)
	switch {
	case errors.Is(err, errKeyReused):
		refuse(w, c.format, http.StatusUnprocessableEntity, err)
	case errors.Is(err, errTooManyReplies):
		refuse(w, c.format, http.StatusInsufficientStorage, err)
	case err != nil:
		refuse(w, c.format, http.StatusConflict, err)
	case before != nil:
		e.board.replay()
		before.replayed().write(w)
	default:
		defer e.kept.free(c)
		e.perform(w, r, c, func(answer reply) { e.kept.keep(c, answer) })
	}
}
