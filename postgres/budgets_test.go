package postgres_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func (r rig) mustSetBudget(t testing.TB, owner, month, limit, currency string) postgres.Budget {
	t.Helper()
	amount := mustAmount(t, limit)
	b, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: owner, Month: month, Limit: &amount, Currency: currency})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// limitIn returns the owner's limit in the month.
func (r rig) limitIn(t testing.TB, owner, month string) string {
	t.Helper()
	b, err := r.store.Budget(t.Context(), owner, month)
	switch {
	case onejob.CodeOf(err) == onejob.CodeNotFound:
		return "not found"
	case err != nil:
		t.Fatal(err)
	case b.Limit == nil:
		return "none"
	}
	return b.Limit.String() + " " + b.Currency
}

func TestBudgetHoldsUntilAnotherIsSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustSetBudget(t, "o", "2996-10", "100", "USD")
	r.mustSetBudget(t, "o", "2997-01", "50", "")
	if _, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: "o", Month: "2997-03"}); err != nil {
		t.Fatal(err)
	}
	r.mustSetBudget(t, "o", "2997-05", "7", "EUR")
	r.mustSetBudget(t, "o", "2996-10", "100.5", "USD")
	for month, want := range map[string]string{
		"2996-09": "not found", "2996-10": "100.5 USD", "2996-12": "100.5 USD", "2997-01": "50 USD", "2997-02": "50 USD",
		"2997-03": "none", "2997-04": "none", "2997-05": "7 EUR", "2998-01": "7 EUR",
	} {
		if got := r.limitIn(t, "o", month); got != want {
			t.Errorf("%s: %s, want %s", month, got, want)
		}
	}
	if got := r.limitIn(t, "another", "2997-01"); got != "not found" {
		t.Errorf("another owner has %s", got)
	}
}

func TestBudgetIsOfThisMonthByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.mustSetBudget(t, "o", "", "1", "USD")
	if n := r.count(t, `SELECT count(*) FROM budgets WHERE to_char(month, 'YYYY-MM') = $1 AND $1 = to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM')`, b.Month); n != 1 {
		t.Errorf("set for %s", b.Month)
	}
	if again, err := r.store.Budget(t.Context(), "o", ""); err != nil || again.Month != b.Month {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestLimitBelowWhatIsSpentLeavesTheCountersAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustSetBudget(t, "o", "2996-11", "100", "USD")
	r.fixtures(t, `UPDATE budgets SET spent = 30.5, reserved = 9.5`)
	if b := r.mustSetBudget(t, "o", "2996-11", "20", ""); b.Left.String() != "-20" || b.Spent.String() != "30.5" || b.Reserved.String() != "9.5" {
		t.Errorf("%+v", b)
	}
	later, err := r.store.Budget(t.Context(), "o", "2996-12")
	if err != nil || later.Left.String() != "20" || later.Spent.Sign() != 0 || later.Reserved.Sign() != 0 {
		t.Errorf("the month after begins at %+v, %v", later, err)
	}
	if b, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: "o", Month: "2996-11"}); err != nil || b.Left != nil || b.Limit != nil || b.Spent.String() != "30.5" {
		t.Errorf("without a limit: %+v, %v", b, err)
	}
}

func TestBudgetThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	less, dust := mustAmount(t, "-1"), mustAmount(t, "0.0000000000001")
	for word, c := range map[string]postgres.BudgetChange{
		"give the currency":       {Owner: "o"},
		"owner is empty":          {Currency: "USD"},
		"which is reserved":       {Owner: "onejob:other", Currency: "USD"},
		"limit: amount -1 cannot": {Owner: "o", Limit: &less, Currency: "USD"},
		"is not a month":          {Owner: "o", Month: "2996-13", Currency: "USD"},
		"12 behind":               {Owner: "o", Limit: &dust, Currency: "USD"},
		"2020-01 is over":         {Owner: "o", Month: "2020-01", Currency: "USD"},
		`currency "dollar"`:       {Owner: "o", Currency: "dollar"},
	} {
		_, err := r.store.SetBudget(t.Context(), c)
		if mustBe(t, err, onejob.ErrInvalidRequest); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("want a refusal with %q, got %v", word, err)
		}
	}
	_, err := r.store.Budget(t.Context(), "o", "november")
	mustBe(t, err, onejob.ErrInvalidRequest)
	r.mustSetBudget(t, "o", "2996-11", "1", "USD")
	_, err = r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: "o", Month: "2996-11", Currency: "EUR"})
	if mustBe(t, err, onejob.ErrConflict); r.limitIn(t, "o", "2996-11") != "1 USD" {
		t.Errorf("it is %s", r.limitIn(t, "o", "2996-11"))
	}
}

func TestTenBudgetsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for round := range rounds {
		calls := make([]func(), 10)
		for i := range calls {
			calls[i] = func() { r.mustSetBudget(t, "o"+strconv.Itoa(round), "2996-11", "1", "USD") }
		}
		together(calls...)
	}
	if n := r.count(t, `SELECT count(*) FROM budgets`); n != rounds {
		t.Errorf("%d rows for %d owners", n, rounds)
	}
}
