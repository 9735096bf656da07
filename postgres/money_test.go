package postgres_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
)

func TestWhateverAnswerUsedSomethingIsBookedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	silent := func(t *testing.T, tokens int) attempt {
		a := r.started(t)
		usage := json.RawMessage(fmt.Sprintf(`{"input_tokens": %d}`, tokens))
		if _, err := r.store.MarkUnknownIfLive(t.Context(), a.job.ID, 1, postgres.Silence{Reason: onejob.ReasonTimeout, Usage: usage}); err != nil {
			t.Fatal(err)
		}
		r.mustHaveBooked(t, a.job.ID, "cost", 0, "0") // its outcome will tell
		return a
	}
	given := func(t *testing.T, a attempt) attempt {
		if _, err := r.store.CancelAttemptIfLive(t.Context(), a.job.ID, a.number, decision()); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, use := range map[string]func(*testing.T) attempt{
		"a success": func(t *testing.T) attempt {
			a := r.started(t)
			r.record(t, a, using(a.success(`1`), 7))
			r.mustComplete(t, a)
			return a
		},
		"a refusal": func(t *testing.T) attempt {
			a := r.started(t)
			r.record(t, a, using(a.failure(), 7))
			return a
		},
		"a late success": func(t *testing.T) attempt {
			a := given(t, r.unknown(t))
			r.mustBeLate(t, a, using(a.success(`1`), 7))
			return a
		},
		"a late failure": func(t *testing.T) attempt {
			a := given(t, r.unknown(t))
			r.mustBeLate(t, a, using(a.failure(), 7))
			return a
		},
		"a late answer after one without usage": func(t *testing.T) attempt {
			a := r.failing(t)
			r.mustBeLate(t, a, using(a.success(`1`), 7))
			return a
		},
		"the same told later as more": func(t *testing.T) attempt {
			a := r.started(t)
			r.record(t, a, using(a.failure(), 7))
			r.mustBeLate(t, a, using(a.success(`1`), 9))
			return a
		},
		"the same told twice": func(t *testing.T) attempt {
			a := r.started(t)
			r.record(t, a, using(a.success(`1`), 7))
			r.record(t, a, using(a.success(`1`), 7))
			return a
		},
		"an unknown one given up": func(t *testing.T) attempt { return given(t, silent(t, 7)) },
		"an unknown one answered": func(t *testing.T) attempt {
			a := silent(t, 3)
			r.record(t, a, using(a.success(`1`), 7))
			return a
		},
		"an unknown one answered without usage": func(t *testing.T) attempt {
			a := silent(t, 7)
			o := a.success(`1`)
			o.Usage = json.RawMessage(`{"input_tokens": 1, "estimated": true}`)
			r.record(t, a, o)
			return a
		},
		"a result of a cancelled job": func(t *testing.T) attempt {
			a := r.started(t)
			r.record(t, a, using(a.success(`1`), 7))
			if _, err := r.store.CancelJobIfOpen(t.Context(), a.job.ID, decision()); err != nil {
				t.Fatal(err)
			}
			return a
		},
	} {
		t.Run(name, func(t *testing.T) { r.mustHaveBooked(t, use(t).job.ID, "cost", 1, "7") })
	}
	r.mustBeConsistent(t)
}

func TestHedgeAndFailoverAreChargedOnceAndCostTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	first := r.started(t, hedged)
	second := r.start(t, first.job, 2, 1)
	r.record(t, second, using(second.success(`1`), 5))
	r.mustComplete(t, second)
	r.mustBeLate(t, first, using(first.success(`2`), 4))
	r.mustHaveBooked(t, first.job.ID, "cost", 2, "9")
	r.mustHaveBooked(t, first.job.ID, "charge", 1, "10")

	refused := r.started(t)
	r.record(t, refused, using(refused.failure(), 3))
	over := r.start(t, refused.job, 2, 0)
	r.record(t, over, using(over.success(`1`), 5))
	r.mustComplete(t, over)
	r.mustComplete(t, over) // its acknowledgement was lost
	r.mustHaveBooked(t, over.job.ID, "cost", 2, "8")
	r.mustHaveBooked(t, over.job.ID, "charge", 1, "10")
	r.mustBeConsistent(t)
}

func TestSuccessThatNobodyToldTheUsageOfIsEstimated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	result := json.RawMessage(`{"total": "12.50"}`)
	a := r.unknown(t)
	if _, err := r.store.ResolveAttemptIfLive(t.Context(), a.job.ID, 1, onejob.AttemptSucceeded, result, decision()); err != nil {
		t.Fatal(err)
	}
	var usage provider.Usage
	var estimated bool
	if err := r.hand.QueryRow(t.Context(), `SELECT usage, estimated FROM ledger WHERE job_id = $1`, a.job.ID).Scan(&usage, &estimated); err != nil {
		t.Fatal(err)
	}
	if want := provider.EstimateUsage(len(a.job.Input), len(result)); usage != *want || !estimated {
		t.Fatalf("booked %+v as estimated %v, want %+v", usage, estimated, *want)
	}
	r.mustBeLate(t, a, using(a.success(`1`), 7)) // a call is booked once
	r.mustHaveBooked(t, a.job.ID, "cost", 1, "0")
}

func TestCallIsPricedByWhatWasValidWhenItStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.price(t, "primary", "input", "1", "2")
	a := r.started(t)
	r.price(t, "primary", "input", "100", "200")
	b := r.started(t)
	for _, x := range []attempt{a, b} {
		r.record(t, x, using(x.success(`1`), 3))
		r.mustComplete(t, x)
	}
	r.mustHaveBooked(t, a.job.ID, "cost", 1, "3")
	r.mustHaveBooked(t, a.job.ID, "charge", 1, "6")
	r.mustHaveBooked(t, b.job.ID, "cost", 1, "300")
	r.mustHaveBooked(t, b.job.ID, "charge", 1, "600")
}

func TestAmountsAreExactToTheTwelfthDigit(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, withParameter(t, pgtest.URL(t), "synchronous_commit", "off"))
	end := time.Now().Add(modelTime)
	prices := map[string]string{"input": "0.000000000001", "cached_input": "0.000000000007", "output": "0.123456789012", "reasoning": "3.000000000009",
		"image": "0.04", "second": "0.000000333333", "call": "0.01"}
	for unit, price := range prices {
		r.price(t, "primary", unit, price, "1."+price[2:])
	}
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) {
			return
		}
		count := func(what string, most int64) int64 { return rapid.Int64Range(0, most).Draw(rt, what) }
		u := provider.Usage{InputTokens: count("input", 1e9), OutputTokens: count("output", 1e9), Images: count("images", 9), Milliseconds: count("ms", 1e7)}
		u.CachedInputTokens, u.ReasoningTokens = count("cached", u.InputTokens), count("reasoning", u.OutputTokens)
		used := map[string]*big.Rat{
			"input": big.NewRat(u.InputTokens-u.CachedInputTokens, 1), "cached_input": big.NewRat(u.CachedInputTokens, 1),
			"output": big.NewRat(u.OutputTokens-u.ReasoningTokens, 1), "reasoning": big.NewRat(u.ReasoningTokens, 1),
			"image": big.NewRat(u.Images, 1), "second": big.NewRat(u.Milliseconds, 1000), "call": big.NewRat(1, 1),
		}
		cost, charge := new(big.Rat), new(big.Rat)
		for unit, quantity := range used {
			cost.Add(cost, new(big.Rat).Mul(quantity, rat(t, prices[unit])))
			charge.Add(charge, new(big.Rat).Mul(quantity, rat(t, "1."+prices[unit][2:])))
		}
		a := r.started(t)
		o := a.success(`1`)
		o.Usage, _ = u.JSON()
		r.record(t, a, o)
		r.mustComplete(t, a)
		if _, got := r.booked(t, a.job.ID, "cost"); got.Cmp(cost) != 0 {
			rt.Fatalf("%+v cost %s, want %s", u, got.FloatString(30), cost.FloatString(30))
		}
		if _, got := r.booked(t, a.job.ID, "charge"); got.Cmp(charge) != 0 {
			rt.Fatalf("%+v is charged %s, want %s", u, got.FloatString(30), charge.FloatString(30))
		}
	})
}

func TestMessagesSayWhatHappenedWithoutTheResult(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	a := r.started(t)
	r.record(t, a, using(a.success(`"secret"`), 3))
	r.mustComplete(t, a)
	f := r.failed(t)
	c := r.cancelled(t)
	for key, want := range map[string]map[string]any{
		"job.succeeded:" + a.job.ID:     {"job_id": a.job.ID, "owner": a.job.Owner, "key": a.job.Key, "kind": "invoice", "status": "succeeded", "provider": "primary", "attempt": 1.0, "error": nil},
		"job.charge:" + a.job.ID:        {"job_id": a.job.ID, "owner": a.job.Owner, "attempt": 1.0, "provider": "primary", "model": "", "kind": "invoice", "amount": "6", "currency": "USD", "estimated": false, "unpriced": false},
		"job.failed:" + f.job.ID + ":0": {"status": "failed", "attempt": 1.0, "error": map[string]any{"code": "rejected", "message": "attempt 1 on primary failed: no"}},
		"job.cancelled:" + c.ID:         {"status": "cancelled", "attempt": nil, "provider": "primary", "error": nil},
	} {
		var payload string
		if err := r.hand.QueryRow(t.Context(), `SELECT payload FROM outbox WHERE message_key = $1`, key).Scan(&payload); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		got := map[string]any{}
		if err := json.Unmarshal([]byte(payload), &got); err != nil {
			t.Fatal(err)
		}
		for name, value := range want {
			if fmt.Sprint(got[name]) != fmt.Sprint(value) {
				t.Errorf("%s says %s = %v, want %v", key, name, got[name], value)
			}
		}
	}
	if n := r.count(t, `SELECT count(*) FROM outbox WHERE payload::text LIKE '%secret%'`); n != 0 {
		t.Errorf("%d messages carry the result", n)
	}
}

func TestHandCannotMoveMoneyPastTheLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	answered, done := r.answered(t).job.ID, r.succeeded(t).job.ID
	where := func(id string) string { return fmt.Sprintf(" WHERE job_id = '%s'", id) }
	decide := `UPDATE attempts SET decided_at = now(), result = NULL` + where(answered)
	r.mustRefuse(t, "won without its charge", fill(answered, 1), decide)
	r.mustRefuse(t, "did not win job", followUp(answered, onejob.StatusSucceeded)[0], fmt.Sprintf(`
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, unpriced, recorded_by)
		SELECT 'job.charge:' || j.id, j.owner_id, 'charge', 0, 'XXX', j.id, a.id, a.provider, '{}', true, 'hand'
		FROM jobs j JOIN attempts a ON a.job_id = j.id WHERE j.id = '%s'`, answered))
	for _, sql := range []string{`UPDATE ledger SET amount = 0` + where(done), `DELETE FROM ledger` + where(done)} {
		r.mustRefuse(t, "rows of ledger are never changed", sql)
	}
	r.mustRefuse(t, "ledger_one_cost", fmt.Sprintf(`INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, recorded_by)
		SELECT source || 'x', owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, 'hand' FROM ledger WHERE kind = 'cost' AND job_id = '%s'`, done))
	r.mustRefuse(t, "ledger_one_charge", fmt.Sprintf(`INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, recorded_by)
		SELECT source || 'x', owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, 'hand' FROM ledger WHERE kind = 'charge' AND job_id = '%s'`, done))
	r.mustRefuse(t, "its usage was recorded without its cost", `UPDATE attempts SET usage = '{}'`+where(r.failing(t).job.ID))
	r.mustRefuse(t, "never change", `UPDATE attempts SET usage = '{}'`+where(done))
	r.mustRefuse(t, "never change", `UPDATE attempts SET model = 'cheap'`+where(r.started(t).job.ID))
	r.mustRefuse(t, "it became cancelled without its message", fmt.Sprintf(`UPDATE jobs SET status = 'cancelled', version = 1, finished_at = now() WHERE id = '%s'`, r.accepted(t).ID))
}

func TestAttemptIsPricedByItsModel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(t, `INSERT INTO prices (provider, model, unit, price, charge, currency, recorded_by)
		VALUES ('primary', 'large', 'input', 5, 7, 'USD', 'test'), ('primary', '', 'input', 1, 1, 'USD', 'test')`)
	s := startOf(r.accepted(t), 1, 0)
	s.Model = "large"
	if started, err := r.store.StartAttemptIfNoneLives(t.Context(), s); err != nil || !started.Mine {
		t.Fatal(started, err)
	}
	a := attempt{number: 1, token: s.Execution}
	a.job.ID = s.JobID
	r.record(t, a, using(a.success(`1`), 3))
	r.mustComplete(t, a)
	r.mustHaveBooked(t, s.JobID, "cost", 1, "15")
	r.mustHaveBooked(t, s.JobID, "charge", 1, "21")
}
