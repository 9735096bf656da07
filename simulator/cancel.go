package simulator

import (
	"errors"
	"net/http"
)

// Cancels say how those are answered who want a call cancelled.
type Cancels struct {
	Status int    `json:"status,omitempty"` // of every answer, without a cancel; 0: a cancel that is not too late is done
	Hold   string `json:"hold,omitempty"`   // no cancel is done until the name is released
}

var errDone = errors.New("the call is done")

// cancel cancels a call that is not done, and answers in the wire format of render. One
// that is done gets what tooLate says.
func (s *Simulator) cancel(render, tooLate func(sight) reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		era, _ := s.current()
		one, subjects := s.asked(era, r)
		era.board.note(subjects, func(c *Counts) { c.Cancels++ })
		if one == nil {
			problem(w, http.StatusNotFound, errNotFound)
			return
		}
		d := one.Cancel
		if d == nil {
			d = &Cancels{}
		}
		if !era.waitFor(r.Context(), d.Hold) {
			hangUp()
		}
		switch {
		case d.Status != 0:
			problem(w, d.Status, errors.New("simulated"))
		case era.runs.cancel(one):
			render(era.runs.glance(one)).write(w)
		default:
			tooLate(era.runs.glance(one)).write(w)
		}
	}
}

// plainOutcome is the answer to a look-up in the format of /v1/run.
func plainOutcome(s sight) reply {
	return reply{status: http.StatusOK, header: jsonHeader(), body: marshal(s.outcome())}
}

// plainTooLate is the answer to a cancel that comes too late, in the same format.
func plainTooLate(s sight) reply {
	body := marshal(map[string]any{
		"id": s.id, "status": s.state,
		"error": replyError{Code: http.StatusConflict, Message: errDone.Error()},
	})
	return reply{status: http.StatusConflict, header: jsonHeader(), body: body}
}
