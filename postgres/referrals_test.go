package postgres_test

import (
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func referral(t testing.TB) postgres.Referral {
	t.Helper()
	return postgres.Referral{Referee: "new", Referrer: "old", Credit: mustAmount(t, "5"), Currency: "USD", RecordedBy: "ana"}
}

func TestReferralIsKeptOnceAndNeverChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, err := r.store.SetReferralOnce(t.Context(), referral(t))
	if err != nil || first.Referrer != "old" || first.CreatedAt.IsZero() {
		t.Fatalf("%+v, %v", first, err)
	}
	same := referral(t)
	same.Credit, same.RecordedBy = mustAmount(t, "5.00"), "ben"
	if again, err := r.store.SetReferralOnce(t.Context(), same); err != nil || again.RecordedBy != "ana" || !again.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("told again: %+v, %v", again, err)
	}
	for _, change := range []func(*postgres.Referral){
		func(r *postgres.Referral) { r.Referrer = "third" },
		func(r *postgres.Referral) { r.Credit = mustAmount(t, "6") },
		func(r *postgres.Referral) { r.Currency = "EUR" },
	} {
		other := referral(t)
		change(&other)
		_, err := r.store.SetReferralOnce(t.Context(), other)
		mustBe(t, err, onejob.ErrConflict)
	}
	r.mustRefuse(t, "rows of referrals are never changed", `UPDATE referrals SET amount = 6`)
	r.mustRefuse(t, "rows of referrals are never changed", `DELETE FROM referrals`)
}

func TestReferralThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for word, change := range map[string]func(*postgres.Referral){
		"cannot refer itself": func(r *postgres.Referral) { r.Referrer = r.Referee },
		"owner is empty":      func(r *postgres.Referral) { r.Referee = "" },
		"referrer is empty":   func(r *postgres.Referral) { r.Referrer = "" },
		"not above zero":      func(r *postgres.Referral) { r.Credit = onejob.Amount{} },
		`currency "usd"`:      func(r *postgres.Referral) { r.Currency = "usd" },
	} {
		bad := referral(t)
		change(&bad)
		_, err := r.store.SetReferralOnce(t.Context(), bad)
		if mustBe(t, err, onejob.ErrInvalidRequest); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("want a refusal with %q, got %v", word, err)
		}
	}
	r.mustRefuse(t, "referrals_of_another", `INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ('a', 'a', 1, 'USD', 'hand')`)
	r.mustRefuse(t, "referrals_amount_check", `INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ('a', 'b', 0, 'USD', 'hand')`)
}
