package onejob_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/onejob/onejob"
)

func mustAmount(t interface{ Fatal(...any) }, text string) onejob.Amount {
	a, err := onejob.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAmountsAddExactly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sum, want := onejob.Amount{}, new(big.Rat)
		for range rapid.IntRange(1, 20).Draw(t, "amounts") {
			text := rapid.StringMatching(`-?[0-9]{1,15}(\.[0-9]{1,30})?`).Draw(t, "amount")
			summand, _ := new(big.Rat).SetString(text)
			sum, want = sum.Add(mustAmount(t, text)), want.Add(want, summand)
		}
		if got, _ := new(big.Rat).SetString(sum.String()); got.Cmp(want) != 0 {
			t.Fatalf("%s, want %s", sum, want.FloatString(30))
		}
	})
}

func TestAmountIsRoundedForDisplayOnlyHalfAwayFromZero(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ exact, currency, display string }{
		{"0.005", "USD", "0.01 USD"}, {"-0.005", "USD", "-0.01 USD"}, {"0.004999999999", "USD", "0.00 USD"},
		{"-0.001", "EUR", "0.00 EUR"}, {"12.5", "JPY", "13 JPY"}, {"1.0005", "KWD", "1.001 KWD"}, {"7", "USD", "7.00 USD"},
	} {
		a := mustAmount(t, c.exact)
		if a.Display(c.currency) != c.display || a.String() != c.exact {
			t.Errorf("%s %s is shown as %q and is %s, want %q", c.exact, c.currency, a.Display(c.currency), a, c.display)
		}
	}
}

func TestAmountIsAStringInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(map[string]onejob.Amount{"amount": mustAmount(t, "0.0000020")})
	if err != nil || string(text) != `{"amount":"0.000002"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var back struct{ Amount onejob.Amount }
	if err := json.Unmarshal(text, &back); err != nil || back.Amount.Cmp(mustAmount(t, "0.000002")) != 0 {
		t.Fatalf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"amount":0.1}`), &back); err == nil {
		t.Fatal("a JSON number was taken for an amount: it may have been a float before")
	}
}

func TestWhatIsNoAmountIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1e3", "1e1000000000", "NaN", "Infinity", "+1", "1.", ".5", "1,5", " 1", "1234567890123456", "--1"} {
		_, err := onejob.ParseAmount(text)
		mustRefuse(t, err, "amount")
	}
}
