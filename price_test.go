package onejob_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onejob/onejob"
)

func priceWith(t *testing.T, change func(*onejob.Price)) onejob.Price {
	t.Helper()
	p := onejob.Price{Provider: "primary", Unit: "input", Price: mustAmount(t, "0.000002"), Currency: "USD"}
	change(&p)
	return p
}

func TestPriceThatCannotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	tiny, negative, huge := mustAmount(t, "0.0000000000001"), mustAmount(t, "-1"), mustAmount(t, "1234567890123")
	for word, change := range map[string]func(*onejob.Price){
		"no provider":     func(p *onejob.Price) { p.Provider = " " },
		`unit "word"`:     func(p *onejob.Price) { p.Unit = "word" },
		"12 behind":       func(p *onejob.Price) { p.Price = tiny },
		"below zero":      func(p *onejob.Price) { p.Charge = &negative },
		"12 digits":       func(p *onejob.Price) { p.Price = huge },
		`currency "XXX"`:  func(p *onejob.Price) { p.Currency = "XXX" },
		`currency "euro"`: func(p *onejob.Price) { p.Currency = "euro" },
		"microseconds":    func(p *onejob.Price) { p.ValidFrom = time.Unix(0, 1) },
	} {
		err := priceWith(t, change).Check()
		if onejob.CodeOf(err) != onejob.CodeMisconfigured || !strings.Contains(err.Error(), word) {
			t.Errorf("want a refusal with %q, got %v", word, err)
		}
	}
	for _, unit := range onejob.PriceUnits() {
		if err := priceWith(t, func(p *onejob.Price) { p.Unit = unit }).Check(); err != nil {
			t.Errorf("%s: %v", unit, err)
		}
	}
}

func TestChargeIsThePriceUnlessSaid(t *testing.T) {
	t.Parallel()
	free := mustAmount(t, "0")
	if got := priceWith(t, func(*onejob.Price) {}).Charged(); got.String() != "0.000002" {
		t.Errorf("charged %s", got)
	}
	if got := priceWith(t, func(p *onejob.Price) { p.Charge = &free }).Charged(); got.Sign() != 0 {
		t.Errorf("charged %s", got)
	}
}

func TestTwoKeysNeverShareASource(t *testing.T) {
	t.Parallel()
	// Short texts of awkward letters meet each other and the limit.
	text := rapid.StringMatching(`[a/:%-]{1,3}|é{80}|sha256|[0-9a-f]{64}`)
	rapid.Check(t, func(t *rapid.T) {
		one, two := [2]string{text.Draw(t, "owner"), text.Draw(t, "key")}, [2]string{text.Draw(t, "owner"), text.Draw(t, "key")}
		a, b := onejob.EntrySource("ledger.topup", one[0], one[1]), onejob.EntrySource("ledger.topup", two[0], two[1])
		if (one == two) != (a == b) || len(a) > 500 || !strings.HasPrefix(a, "ledger.topup:") {
			t.Fatalf("%q is %s and %q is %s", one, a, two, b)
		}
	})
}

func TestLongKeyCannotBeMistakenForAnothersHash(t *testing.T) {
	t.Parallel()
	long := onejob.EntrySource("ledger.topup", strings.Repeat("é", 100), strings.Repeat("é", 100))
	if !strings.HasPrefix(long, "ledger.topup:sha256-") || strings.Contains(long, "/") {
		t.Errorf("%s", long)
	}
	if short := onejob.EntrySource("ledger.topup", "acme", "inv 1"); short != "ledger.topup:acme/inv%201" {
		t.Errorf("%s", short)
	}
}
