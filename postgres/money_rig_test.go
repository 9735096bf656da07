package postgres_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// price sets what a unit of the provider's only model costs us and what its owner pays.
func (r rig) price(t testing.TB, provider, unit, price, charge string) {
	t.Helper()
	r.exec(t, `INSERT INTO prices (provider, unit, price, charge, currency, recorded_by) VALUES ($1, $2, $3, $4, 'USD', 'test')`, provider, unit, price, charge)
}

// priced makes an input token of every provider cost 1 and be paid with 2, so that request()
// comes to 6: it has three input tokens, and output is free.
func (r rig) priced(t testing.TB) rig {
	t.Helper()
	for _, provider := range []string{"primary", "second"} {
		r.price(t, provider, "input", "1", "2")
		r.price(t, provider, "output", "0", "0")
	}
	return r
}

const reckoned = 6 // what a job of [request] reserves in a rig that is priced

// limit sets the owner's budget of this month.
func (r rig) limit(t testing.TB, owner string, limit int) {
	t.Helper()
	r.exec(t, `INSERT INTO budgets (owner_id, month, "limit", currency) VALUES ($1, `+thisMonth+`, $2, 'USD')
		ON CONFLICT (owner_id, month) DO UPDATE SET "limit" = excluded."limit"`, owner, limit)
}

const thisMonth = `date_trunc('month', now() AT TIME ZONE 'UTC')::date`

// of makes the request the owner's.
func of(owner string) func(*onejob.Request) {
	return func(q *onejob.Request) { q.Owner = owner }
}

// mustHaveBudget checks the counters of the owner's budgets, of all months together.
func (r rig) mustHaveBudget(t testing.TB, owner, reserved, spent string) {
	t.Helper()
	var got string
	err := r.hand.QueryRow(t.Context(), `SELECT trim_scale(sum(reserved)) || ' ' || trim_scale(sum(spent)) FROM budgets WHERE owner_id = $1`, owner).Scan(&got)
	if want := reserved + " " + spent; err != nil || got != want {
		t.Errorf("reserved and spent are %s (%v), want %s", got, err, want)
	}
}

// mustRefuseJob checks that the job is refused by its owner's budget.
func (r rig) mustRefuseJob(t testing.TB, job onejob.Job) {
	t.Helper()
	registered, err := r.store.InsertJobs(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, registered[0].Err, onejob.ErrBudgetExceeded)
}

// using returns the outcome with a usage of so many input tokens.
func using(o postgres.Outcome, tokens int) postgres.Outcome {
	o.Usage = json.RawMessage(fmt.Sprintf(`{"input_tokens": %d}`, tokens))
	return o
}

// mustComplete lets the attempt's result win.
func (r rig) mustComplete(t testing.TB, a attempt) {
	t.Helper()
	if c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, a.number); err != nil || !c.Won {
		t.Fatalf("complete: %+v, %v", c, err)
	}
}

// mustBeLate records an outcome of an attempt that has one.
func (r rig) mustBeLate(t testing.TB, a attempt, o postgres.Outcome) {
	t.Helper()
	o.RecordedBy += "late"
	if recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, a.number, o); err != nil || !recorded.Late {
		t.Fatalf("record: %+v, %v", recorded, err)
	}
}

// booked returns the entries of the kind under the job: how many, and their exact sum.
func (r rig) booked(t testing.TB, jobID, kind string) (entries int, sum *big.Rat) {
	t.Helper()
	var text string
	err := r.hand.QueryRow(t.Context(), `SELECT count(*), coalesce(sum(amount), 0)::text FROM ledger WHERE job_id = $1 AND kind = $2`, jobID, kind).Scan(&entries, &text)
	if err != nil {
		t.Fatal(err)
	}
	return entries, rat(t, text)
}

func (r rig) mustHaveBooked(t testing.TB, jobID, kind string, entries int, sum string) {
	t.Helper()
	if n, got := r.booked(t, jobID, kind); n != entries || got.Cmp(rat(t, sum)) != 0 {
		t.Errorf("%d entries of kind %s over %s, want %d over %s", n, kind, got.FloatString(12), entries, sum)
	}
}
