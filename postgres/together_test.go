package postgres_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres/pgtest"
)

// Invariant 9, by a connection that is cut in front of the commit of each of the four.
func TestResultChargeReservationAndMessagesCommitTogether(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]string{
		"result":      "SET status = 'succeeded'",
		"charge":      "'job.charge:'",
		"reservation": "SET state = 'settled'",
		"messages":    "INSERT INTO outbox",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t).priced(t)
			owner := rand.Text()
			r.limit(t, owner, 100)
			a := r.answered(t, of(owner))
			proxy := pgproxy.Start(t, r.url)
			cut := proxy.CutBeforeCommit(match)
			_, err := pgtest.Open(t, proxy.URL()).CompleteJobIfOpen(t.Context(), a.job.ID, a.number)
			mustBe(t, err, onejob.ErrServerUnreachable)
			select {
			case <-cut.Fired():
			case <-time.After(patience):
				t.Fatal("the fault did not strike")
			}
			r.mustBeOpen(t, a, owner)
			r.mustComplete(t, a)
			r.mustHaveBooked(t, a.job.ID, "charge", 1, "6")
			r.mustHaveBudget(t, owner, "0", "6")
		})
	}
}

// mustBeOpen fails the test if anything is there that belongs to the job's end.
func (r rig) mustBeOpen(t *testing.T, a attempt, owner string) {
	t.Helper()
	if p := r.progress(t, a.job.ID); p.Status != onejob.StatusRunning || p.CompletedBy != 0 {
		t.Errorf("the job is %s by attempt %d", p.Status, p.CompletedBy)
	}
	r.mustHaveBooked(t, a.job.ID, "charge", 0, "0")
	r.mustHaveBudget(t, owner, "6", "0")
	if n := r.count(t, `SELECT count(*) FROM outbox WHERE message_key IN ('job.succeeded:' || $1, 'job.charge:' || $1)`, a.job.ID); n != 0 {
		t.Errorf("%d messages tell of its end", n)
	}
}
