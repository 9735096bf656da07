package simulator

import (
	"cmp"
	"errors"
	"net/http"
	"path"
)

// LookUps say how those who ask about a call are answered: a number of them not at all,
// the next ones with a fault, the rest by what became of the call.
type LookUps struct {
	Forget int `json:"forget,omitempty"` // how many do not find the call; negative: all
	Broken int `json:"broken,omitempty"` // how many of the others get the fault below; negative: all

	Status     int        `json:"status,omitempty"` // of the fault; 0: 500, or 200 if it has a body or is cut
	RetryAfter HeaderText `json:"retry_after,omitempty"`
	Body       *string    `json:"body,omitempty"`     // in place of the answer
	CutBody    bool       `json:"cut_body,omitempty"` // the answer ends half-way

	Hold string `json:"hold,omitempty"` // no look-up is answered until the name is released
}

var (
	errNotFound  = errors.New("no such call")
	errSimulated = errors.New("simulated")
)

// lookUp answers look-ups in a format: with what tell makes of the call.
func (s *Simulator) lookUp(f format, tell func(sight) reply) http.HandlerFunc {
	return authorised(f, func(w http.ResponseWriter, r *http.Request) {
		era, _ := s.current()
		one, subjects := s.askedAbout(era, r, f)
		era.board.note(subjects, func(c *Counts) { c.LookUps++ })
		if one == nil {
			refuse(w, f, http.StatusNotFound, errNotFound)
			return
		}
		era.answerLookUp(w, r, f, one, tell)
	})
}

// by tells calls of one format, and finds no others.
func by[F format](tell func(F, sight) reply) func(sight) reply {
	return func(s sight) reply {
		f, ok := s.format.(F)
		if !ok {
			return no(f, http.StatusNotFound, errNotFound)
		}
		return tell(f, s)
	}
}

func (e *era) answerLookUp(w http.ResponseWriter, r *http.Request, f format, one *run, tell func(sight) reply) {
	d := one.LookUp
	if d == nil {
		d = &LookUps{}
	}
	if !e.waitFor(r.Context(), d.Hold) {
		hangUp()
	}
	ordinal, seen := e.runs.see(one)
	switch {
	case struck(ordinal, d.Forget):
		refuse(w, f, http.StatusNotFound, errNotFound)
	case struck(ordinal-max(0, d.Forget), d.Broken):
		d.spoil(w, f, tell(seen))
	default:
		tell(seen).write(w)
	}
}

// struck says whether the ordinal-th is among the first so many.
func struck(ordinal, first int) bool { return first < 0 || ordinal <= first }

// spoil answers with the fault.
func (d LookUps) spoil(w http.ResponseWriter, f format, answer reply) {
	answer.status = cmp.Or(d.Status, d.defaultStatus())
	if d.RetryAfter != "" {
		answer.header["Retry-After"] = string(d.RetryAfter)
	}
	switch {
	case d.Body != nil:
		answer.body = []byte(*d.Body)
	case answer.status >= http.StatusMultipleChoices:
		answer.body = no(f, answer.status, errSimulated).body
	}
	if d.CutBody {
		answer.writeHalf(w)
	}
	answer.write(w)
}

func (d LookUps) defaultStatus() int {
	if d.Body != nil || d.CutBody {
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// askedAbout returns the call that a request is about, or nil, and under which names it is
// counted.
func (s *Simulator) askedAbout(e *era, r *http.Request, f format) (*run, []string) {
	who := s.addressee(r, f)
	who.key = cmp.Or(r.PathValue("key"), r.URL.Query().Get("key"), who.key)
	who.job = cmp.Or(r.PathValue("job"), r.URL.Query().Get("job"), who.job)
	number := cmp.Or(r.PathValue("attempt"), r.URL.Query().Get("attempt"), r.Header.Get(attemptHeader))
	who.attempt, _ = readAttempt(number) // what is no number finds nothing
	one := e.runs.find(who.askedName(r.PathValue("ref")))
	if one == nil {
		return nil, who.subjects()
	}
	return one, one.subjects()
}

// askedName is the name under which a caller asks: the simulator's reference, which may
// be a whole Location, else its key, else its job and attempt.
func (c call) askedName(reference string) string {
	switch {
	case reference != "":
		return byReference(path.Base(reference))
	case c.key != "":
		return byKey(c.provider, c.key)
	}
	return byAttempt(c.provider, c.job, c.attempt)
}
