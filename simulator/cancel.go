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

// Errors of asking for what cannot be.
var (
	errDone       = errors.New("the call is done")
	errForeground = errors.New("only responses in the background can be cancelled")
	errNoResults  = errors.New("the batch has no results yet")
)

// cancel cancels calls that are not done, in a format: cancelled tells of one that it
// was, tooLate of one that is done.
func (s *Simulator) cancel(f format, cancelled, tooLate func(sight) reply) http.HandlerFunc {
	return authorised(f, func(w http.ResponseWriter, r *http.Request) {
		era, _ := s.current()
		one, subjects := s.askedAbout(era, r, f)
		era.board.note(subjects, func(c *Counts) { c.Cancels++ })
		if one == nil {
			refuse(w, f, http.StatusNotFound, errNotFound)
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
			refuse(w, f, d.Status, errSimulated)
		case era.runs.cancel(one):
			cancelled(era.runs.glance(one)).write(w)
		default:
			tooLate(era.runs.glance(one)).write(w)
		}
	})
}
