package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func mustAmount(t testing.TB, text string) onejob.Amount {
	t.Helper()
	a, err := onejob.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inputPrice returns the price of an input token of the provider primary.
func inputPrice(t testing.TB, price string, from ...time.Time) onejob.Price {
	t.Helper()
	p := onejob.Price{Provider: "primary", Model: "m", Unit: "input", Price: mustAmount(t, price), Currency: "USD"}
	if len(from) > 0 {
		p.ValidFrom = from[0]
	}
	return p
}

func (r rig) mustImport(t testing.TB, prices ...onejob.Price) []postgres.StoredPrice {
	t.Helper()
	stored, err := r.store.ImportPrices(t.Context(), "worker", prices)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// currentPrices returns what is valid now, as "unit price charge".
func (r rig) currentPrices(t testing.TB) (current []string) {
	t.Helper()
	prices, err := r.store.Prices(t.Context(), "primary")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range prices {
		if p.Current {
			current = append(current, fmt.Sprintf("%s %s %s", p.Unit, p.Price, p.Charge))
		}
	}
	return current
}

func (r rig) mustBePriced(t testing.TB, want ...string) {
	t.Helper()
	if got := r.currentPrices(t); !slices.Equal(got, want) {
		t.Errorf("valid now is %q, want %q", got, want)
	}
}

func TestSamePricesTwiceChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	charge := mustAmount(t, "0.000003")
	output := inputPrice(t, "0.000006")
	output.Unit = "output"
	file := []onejob.Price{inputPrice(t, "0.000002"), output, inputPrice(t, "0.000001", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))}
	file[0].Charge = &charge
	if stored := r.mustImport(t, file...); len(stored) != 3 || !stored[0].Current || stored[2].Current || stored[0].RecordedBy != "worker" {
		t.Fatalf("stored %+v", stored)
	}
	if stored := r.mustImport(t, file...); len(stored) != 0 {
		t.Errorf("stored again: %+v", stored)
	}
	file[1].Price = mustAmount(t, "0.00000600") // the same number in more digits
	if stored := r.mustImport(t, file...); len(stored) != 0 {
		t.Errorf("stored again: %+v", stored)
	}
	r.mustBePriced(t, "input 0.000002 0.000003", "output 0.000006 0.000006")
}

func TestChangedPriceIsANewRowAndSoIsOneChangedBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, price := range []string{"1", "2", "1"} {
		if stored := r.mustImport(t, inputPrice(t, price)); len(stored) != 1 {
			t.Errorf("%s: stored %+v", price, stored)
		}
		r.mustBePriced(t, "input "+price+" "+price)
	}
	free := inputPrice(t, "1")
	free.Charge = new(onejob.Amount)
	r.mustImport(t, free)
	r.mustBePriced(t, "input 1 0")
	if n := r.count(t, `SELECT count(*) FROM prices`); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}

func TestPriceWithATimeSpeaksForNowOnceItsTimeHasCome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	past, before := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC)
	file := []onejob.Price{inputPrice(t, "1"), inputPrice(t, "2", past)}
	for range 2 { // a worker that starts again must not bring the old price back
		r.mustImport(t, file...)
		r.mustBePriced(t, "input 2 2")
	}
	r.mustImport(t, append(file, inputPrice(t, "3", before))...)
	r.mustBePriced(t, "input 2 2")
	if n := r.count(t, `SELECT count(*) FROM prices`); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestImportRefusesWhatRowsThatNeverChangeContradict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	r.mustImport(t, inputPrice(t, "1", from))
	second, euro, bad := inputPrice(t, "2"), inputPrice(t, "1"), inputPrice(t, "1")
	euro.Unit, euro.Currency, bad.Unit, second.Provider = "output", "EUR", "word", "second"
	for why, prices := range map[string][]onejob.Price{
		"is stored as 1":                     {second, inputPrice(t, "2", from)},
		"are in USD and cannot be in EUR":    {second, euro},
		"use one of input, cached_input":     {second, bad},
		`is stored as 1, charge 1: rows nev`: {{Provider: "primary", Model: "m", Unit: "input", Price: mustAmount(t, "1"), Charge: new(onejob.Amount), Currency: "USD", ValidFrom: from}},
	} {
		_, err := r.store.ImportPrices(t.Context(), "ana", prices)
		if mustBe(t, err, onejob.ErrMisconfigured); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("want a refusal with %q, got %v", why, err)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM prices`); n != 1 {
		t.Errorf("%d rows: a refused import stored some of it", n)
	}
	r.mustRefuse(t, "its prices are in USD, not in EUR", `INSERT INTO prices (provider, model, unit, price, charge, currency, recorded_by) VALUES ('primary', 'm', 'call', 1, 1, 'EUR', 'hand')`)
	r.mustRefuse(t, "rows of prices are never changed", `UPDATE prices SET price = 2`)
	r.mustRefuse(t, "rows of prices are never changed", `DELETE FROM prices`)
}

func TestTenWorkersAtOnceStoreOnePrice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for round := range rounds {
		file := []onejob.Price{inputPrice(t, fmt.Sprint(round+1)), inputPrice(t, "1", time.Date(2100, 1, 1, 0, 0, round, 0, time.UTC))}
		stored, calls := make([][]postgres.StoredPrice, 10), make([]func(), 10)
		for i := range calls {
			calls[i] = func() {
				var err error
				if stored[i], err = r.store.ImportPrices(t.Context(), "worker", file); err != nil {
					t.Error(err)
				}
			}
		}
		together(calls...)
		if n := len(slices.Concat(stored...)); n != 2 {
			t.Fatalf("round %d: %d rows, want one of each price", round, n)
		}
	}
}

// An import may commit between the outcome and the decision on it, with a price that was valid
// when the call started.
func TestCallIsChargedByThePricesThatItWasCostedBy(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	a := r.started(t)
	r.record(t, a, using(a.success(`1`), 3))
	r.exec(t, `INSERT INTO prices (provider, unit, price, charge, currency, valid_from, recorded_by)
		SELECT 'primary', 'input', 10, 20, 'USD', started_at, 'test' FROM attempts`)
	r.mustComplete(t, a)
	cost, charge := r.entryOf(t, a.job.Owner, "cost"), r.entryOf(t, a.job.Owner, "charge")
	if cost.Amount.String() != "3" || charge.Amount.String() != "6" || string(charge.Prices) != string(cost.Prices) {
		t.Errorf("cost %s, charge %s by %s", cost.Amount, charge.Amount, charge.Prices)
	}
	r.mustBeConsistent(t)
}

func TestPriceOfThePastChangesNothingThatIsBooked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worked(t) // calls of 2026-11-01, by prices of 2026-01-01
	priced := func(at string) (cost string) {
		t.Helper()
		if err := r.hand.QueryRow(t.Context(), `SELECT trim_scale(cost)::text FROM onejob_priced('second', 'm-1', '{"input_tokens": 1}', $1::timestamptz)`, at).Scan(&cost); err != nil {
			t.Fatal(err)
		}
		return cost
	}
	booked, before := r.entryOf(t, "owner-1", "cost"), priced("2026-11-02")
	late := inputPrice(t, "7", time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	late.Provider, late.Model = "second", "m-1"
	r.mustImport(t, late)
	if after := r.entryOf(t, "owner-1", "cost"); after.Amount.Cmp(booked.Amount) != 0 || string(after.Prices) != string(booked.Prices) {
		t.Errorf("it was %+v and is %+v", booked, after)
	}
	if priced("2026-11-02") != "7" || priced("2026-05-31") != before {
		t.Errorf("a call after it costs %s, one before it %s", priced("2026-11-02"), priced("2026-05-31"))
	}
	late.Price, late.ValidFrom = mustAmount(t, "5"), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if r.mustImport(t, late); priced("2026-11-02") != "7" || priced("2026-05-31") != "5" {
		t.Errorf("one from before that: %s and %s", priced("2026-11-02"), priced("2026-05-31"))
	}
}
