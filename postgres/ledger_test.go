package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func topup(t testing.TB, owner, key, amount string) postgres.Deposit {
	t.Helper()
	return postgres.Deposit{Kind: "topup", Owner: owner, Key: key, Amount: mustAmount(t, amount), Currency: "USD", By: "ana"}
}

func (r rig) mustBook(t testing.TB, d postgres.Deposit) postgres.Booked {
	t.Helper()
	b, err := r.store.BookDepositOnce(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// balance returns the owner's balance in USD.
func (r rig) balance(t testing.TB, owner string) string {
	t.Helper()
	balances, err := r.store.Balances(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(balances, func(b postgres.Balance) bool { return b.Currency == "USD" })
	if i < 0 {
		return "none"
	}
	return balances[i].Balance.String()
}

// entries lists the entries that the filter selects.
func (r rig) entries(t testing.TB, f postgres.LedgerFilter) []postgres.LedgerEntry {
	t.Helper()
	entries, err := r.store.LedgerEntries(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// entryOf returns the only entry of the kind that the owner's ledger has.
func (r rig) entryOf(t testing.TB, owner, kind string) postgres.LedgerEntry {
	t.Helper()
	entries := r.entries(t, postgres.LedgerFilter{Owner: owner, Kind: kind})
	if len(entries) != 1 {
		t.Fatalf("%d entries of kind %s", len(entries), kind)
	}
	return entries[0]
}

func TestSameDepositTwiceIsOneEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, kind := range []string{"topup", "credit"} {
		d := topup(t, "o "+kind, "in/1", "12.50")
		d.Kind, d.Reason = kind, "invoice 7"
		first := r.mustBook(t, d)
		if !first.Created || first.Source != "ledger."+kind+":o%20"+kind+"/in%2F1" || first.Amount.String() != "12.5" || first.Reason != "invoice 7" || first.RecordedBy != "ana" {
			t.Errorf("booked %+v", first)
		}
		d.Reason, d.By = "the same, told again", "ben"
		if again := r.mustBook(t, d); again.Created || again.ID != first.ID || again.RecordedBy != "ana" {
			t.Errorf("told again: %+v", again)
		}
		var topic, payload string
		if err := r.hand.QueryRow(t.Context(), `SELECT topic, payload::text FROM outbox WHERE message_key = $1`, first.Source).Scan(&topic, &payload); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"entry" : %d, "owner" : "o %s", "job_id" : null, "attempt" : null, "provider" : null, "model" : null, "kind" : null, `+
			`"amount" : "12.5", "currency" : "USD", "estimated" : false, "unpriced" : false}`, first.ID, kind); topic != "ledger."+kind || payload != want {
			t.Errorf("told %s %s, want %s", topic, payload, want)
		}
		if got := r.balance(t, d.Owner); got != "12.5" {
			t.Errorf("balance %s", got)
		}
	}
	r.mustBook(t, topup(t, "another", "in/1", "3")) // a key is its owner's
	if n := r.count(t, `SELECT count(*) FROM ledger l JOIN outbox o ON o.message_key = l.source`); n != 3 {
		t.Errorf("%d entries with messages, want 3", n)
	}
}

func TestKeyOfAnotherDepositIsAConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustBook(t, topup(t, "o", "1", "5"))
	more, other := topup(t, "o", "1", "5.000000000001"), topup(t, "o", "1", "5")
	other.Currency = "EUR"
	for _, d := range []postgres.Deposit{more, other} {
		_, err := r.store.BookDepositOnce(t.Context(), d)
		if mustBe(t, err, onejob.ErrConflict); err == nil || !strings.Contains(err.Error(), "of 5 USD: use a new key") {
			t.Errorf("%v", err)
		}
	}
	if r.balance(t, "o") != "5" || r.count(t, `SELECT count(*) FROM ledger`) != 1 {
		t.Errorf("balance %s", r.balance(t, "o"))
	}
	r.mustBook(t, topup(t, "o", "1", "5.00")) // the same number
}

func TestRefusedDepositBooksNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for word, change := range map[string]func(*postgres.Deposit){
		"owner is empty":         func(d *postgres.Deposit) { d.Owner = "" },
		"key is empty":           func(d *postgres.Deposit) { d.Key = "" },
		"not above zero":         func(d *postgres.Deposit) { d.Amount = mustAmount(t, "0.00") },
		"amount -1":              func(d *postgres.Deposit) { d.Amount = mustAmount(t, "-1") },
		"12 behind":              func(d *postgres.Deposit) { d.Amount = mustAmount(t, "0.0000000000001") },
		`currency "XXX" is none`: func(d *postgres.Deposit) { d.Currency = "XXX" },
		"reason has":             func(d *postgres.Deposit) { d.Reason = strings.Repeat("r", 4097) },
		"by is empty":            func(d *postgres.Deposit) { d.By = "" },
	} {
		d := topup(t, "o", "1", "5")
		change(&d)
		_, err := r.store.BookDepositOnce(t.Context(), d)
		if mustBe(t, err, onejob.ErrInvalidRequest); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("want a refusal with %q, got %v", word, err)
		}
	}
	if n := r.count(t, `SELECT (SELECT count(*) FROM ledger) + (SELECT count(*) FROM outbox)`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestTwentyDepositsOfOneKeyAtOnceAreOneEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for round := range rounds {
		created := make([]bool, 20)
		calls := make([]func(), len(created))
		for i := range calls {
			calls[i] = func() {
				b, err := r.store.BookDepositOnce(t.Context(), topup(t, "o", fmt.Sprint(round), "1"))
				if err != nil {
					t.Error(err)
				}
				created[i] = b.Created
			}
		}
		together(calls...)
		if n := len(slices.DeleteFunc(created, func(c bool) bool { return !c })); n != 1 {
			t.Errorf("round %d: %d calls say that they booked it", round, n)
		}
	}
	if got := r.balance(t, "o"); got != fmt.Sprint(rounds) {
		t.Errorf("balance %s after %d deposits of 1", got, rounds)
	}
}

// worked books a cost and a charge of owner-1, and a topup and a credit of 10 each.
func (r rig) worked(t testing.TB) {
	t.Helper()
	r.workedJobs(t, 1)
	if err := r.bookWork(t.Context(), 1, 1, "2026-11-05"); err != nil {
		t.Fatal(err)
	}
	credit := topup(t, "owner-1", "1", "10")
	credit.Kind = "credit"
	r.mustBook(t, topup(t, "owner-1", "1", "10"))
	r.mustBook(t, credit)
}

func TestReversalTakesBackTheWholeEntryOnce(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct{ kind, sign string }{"charge": {"credit", ""}, "cost": {"cost", "-"}, "topup": {"topup", "-"}, "credit": {"credit", "-"}} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.worked(t)
			e := r.entryOf(t, "owner-1", kind)
			reversal, err := r.store.ReverseEntryOnce(t.Context(), e.ID, "ana", "wrong")
			if err != nil {
				t.Fatal(err)
			}
			if !reversal.Created || reversal.Kind != want.kind || reversal.Amount.String() != want.sign+e.Amount.String() || reversal.Corrects != e.ID ||
				reversal.Source != fmt.Sprintf("ledger.reversal:%d", e.ID) || reversal.Reason != "wrong" || reversal.JobID != e.JobID || reversal.Attempt != e.Attempt || reversal.Provider != e.Provider {
				t.Errorf("%+v takes back %+v", reversal, e)
			}
			again, err := r.store.ReverseEntryOnce(t.Context(), e.ID, "ben", "again")
			if err != nil || again.Created || again.ID != reversal.ID || again.Reason != "wrong" {
				t.Errorf("again: %+v, %v", again, err)
			}
			_, err = r.store.ReverseEntryOnce(t.Context(), reversal.ID, "ana", "back")
			mustBe(t, err, onejob.ErrInvalidRequest)
			if n := r.count(t, `SELECT count(*) FROM outbox WHERE topic = 'ledger.reversal' AND message_key = $1 AND payload->>'amount' = $2`, reversal.Source, reversal.Amount); n != 1 {
				t.Errorf("%d messages", n)
			}
			if there := r.entries(t, postgres.LedgerFilter{Owner: "owner-1"}); len(there) != 5 || there[0].ID != reversal.ID {
				t.Errorf("%d entries", len(there))
			}
			r.mustHaveNothingOf(t, e)
		})
	}
}

// mustHaveNothingOf fails the test unless the entry and its reversal come to nothing in
// every account that the entry touched and that is the owner's or a provider's.
func (r rig) mustHaveNothingOf(t testing.TB, e postgres.LedgerEntry) {
	t.Helper()
	if n := r.count(t, `
		SELECT count(*) FROM (
			SELECT account, sum(amount) AS balance FROM (
				SELECT to_account AS account, amount FROM ledger WHERE $1 IN (id, corrects)
				UNION ALL SELECT from_account, -amount FROM ledger WHERE $1 IN (id, corrects)) moved
			WHERE account LIKE 'owner:%' OR account LIKE 'provider:%' GROUP BY account) b WHERE balance <> 0`, e.ID); n != 0 {
		t.Errorf("%d accounts keep something of entry %d", n, e.ID)
	}
}

func TestReversalOfNothingIsNotFound(t *testing.T) {
	t.Parallel()
	_, err := newRig(t).store.ReverseEntryOnce(t.Context(), 7, "ana", "wrong")
	mustBe(t, err, onejob.ErrNotFound)
}

func TestTenReversalsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for round := range rounds {
		e := r.mustBook(t, topup(t, "o", fmt.Sprint(round), "1"))
		ids, calls := make([]int64, 10), make([]func(), 10)
		for i := range calls {
			calls[i] = func() {
				b, err := r.store.ReverseEntryOnce(t.Context(), e.ID, "ana", "wrong")
				if err != nil {
					t.Error(err)
				}
				ids[i] = b.ID
			}
		}
		together(calls...)
		if ids = slices.Compact(ids); len(ids) != 1 {
			t.Errorf("round %d: reversals %v", round, ids)
		}
	}
	if got := r.balance(t, "o"); got != "0" {
		t.Errorf("balance %s", got)
	}
}

func TestBalanceMayBeLongerThanWhatIsBooked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fixtures(t, `INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by)
		SELECT 'ledger.topup:' || n, 'rich', 'topup', 999999999999999, 'USD', 'x' FROM generate_series(1, 20) n`)
	balances, err := r.store.Balances(t.Context(), "rich")
	if err != nil || len(balances) != 1 || balances[0].Balance.String() != "19999999999999980" {
		t.Errorf("%+v, %v", balances, err)
	}
}

func TestBalanceIsTheSumOverTheLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 30)
	if err := r.bookWork(t.Context(), 1, 30, "2026-11-05"); err != nil {
		t.Fatal(err)
	}
	r.mustBook(t, topup(t, "owner-1", "1", "0.000000000001"))
	r.mustBook(t, topup(t, "owner-2", "1", "100"))
	if _, err := r.store.ReverseEntryOnce(t.Context(), r.entries(t, postgres.LedgerFilter{Owner: "owner-1", Kind: "charge"})[0].ID, "ana", "wrong"); err != nil {
		t.Fatal(err)
	}
	want := new(big.Rat) // added up as a spreadsheet would: what the owner got less what the owner paid
	for _, e := range r.entries(t, postgres.LedgerFilter{Owner: "owner-1"}) {
		switch e.Kind {
		case "topup", "credit":
			want.Add(want, rat(t, e.Amount.String()))
		case "charge":
			want.Sub(want, rat(t, e.Amount.String()))
		}
	}
	if got := rat(t, r.balance(t, "owner-1")); got.Cmp(want) != 0 || want.Sign() == 0 {
		t.Errorf("balance %s, want %s", got.FloatString(12), want.FloatString(12))
	}
	if got := r.balance(t, "nobody"); got != "none" {
		t.Errorf("nobody has %s", got)
	}
}

func TestLedgerIsListedNewestFirstAndInPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worked(t)
	all := r.entries(t, postgres.LedgerFilter{Owner: "owner-1"})
	if kinds := kindsOf(all); kinds != "credit topup charge cost" {
		t.Errorf("all: %s", kinds)
	}
	today, booked := all[0].CreatedAt.Truncate(24*time.Hour), time.Date(2026, 11, 5, 0, 0, 0, 0, time.UTC)
	for want, f := range map[string]postgres.LedgerFilter{
		"credit topup":             {First: today},
		"charge cost":              {First: booked, Last: booked},
		"topup":                    {Kind: "topup"},
		"topup charge":             {Before: all[0].ID, Limit: 2},
		"credit topup charge cost": {Last: today},
		"":                         {Last: booked.AddDate(0, 0, -1)},
	} {
		f.Owner = "owner-1"
		if got := kindsOf(r.entries(t, f)); got != want {
			t.Errorf("%+v lists %q, want %q", f, got, want)
		}
	}
	if got := r.entries(t, postgres.LedgerFilter{Owner: "owner-2"}); len(got) != 0 {
		t.Errorf("another owner's: %+v", got)
	}
	cost := all[3]
	if cost.FromAccount != "costs" || cost.ToAccount != "provider:second" || cost.JobID == "" || cost.Attempt != 1 || cost.Model != "m-1" || !strings.Contains(string(cost.Usage), `"input_tokens"`) {
		t.Errorf("cost %+v", cost)
	}
	type line struct{ Unit, Quantity, Price, Charge string }
	var lines []line
	if err := json.Unmarshal(cost.Prices, &lines); err != nil || !slices.ContainsFunc(lines, func(l line) bool { return l.Unit == "input" && l.Quantity == "9" }) {
		t.Errorf("prices %s, %v", cost.Prices, err)
	}
}

func kindsOf(entries []postgres.LedgerEntry) string {
	var kinds []string
	for _, e := range entries {
		kinds = append(kinds, e.Kind)
	}
	return strings.Join(kinds, " ")
}

func TestSumOverAllAccountsIsZeroUntilAHandBreaksIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worked(t)
	sums, err := r.store.SumLedger(t.Context())
	if err != nil || len(sums) != 1 || sums[0].Sum.Sign() != 0 || sums[0].Accounts != 6 || sums[0].Currency != "USD" {
		t.Fatalf("%+v, %v", sums, err)
	}
	for _, sql := range []string{
		`ALTER TABLE ledger DISABLE TRIGGER USER, ALTER COLUMN to_account DROP EXPRESSION, ALTER COLUMN to_account DROP NOT NULL`,
		`UPDATE ledger SET to_account = NULL WHERE kind = 'topup'`,
	} {
		if _, err := r.hand.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
			t.Fatal(err)
		}
	}
	if sums, err = r.store.SumLedger(t.Context()); err != nil || sums[0].Sum.String() != "-10" {
		t.Errorf("%+v, %v", sums, err)
	}
}

func TestLedgerRefusesTheHand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustBook(t, topup(t, "o", "1", "5"))
	r.mustRefuse(t, "rows of ledger are never changed", `UPDATE ledger SET amount = 6`)
	r.mustRefuse(t, "rows of ledger are never changed", `DELETE FROM ledger`)
	r.mustRefuse(t, "without its message", `INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by) VALUES ('ledger.topup:x/y', 'o', 'topup', 1, 'USD', 'hand')`)
	r.mustRefuse(t, "ledger_amount_positive", `INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by) VALUES ('ledger.topup:x/y', 'o', 'topup', -1, 'USD', 'hand')`)
	r.mustRefuse(t, "does not take back", `INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by, corrects) SELECT 'ledger.reversal:x', 'o', 'topup', -4, 'USD', 'hand', id FROM ledger`)
}
