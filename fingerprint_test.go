package onejob_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/onejob/onejob"
)

const depth = 200

func intentWith(input string) onejob.Intent {
	return onejob.Intent{Kind: "ticket", Provider: "primary", Input: json.RawMessage(input)}
}

func mustFingerprint(t *testing.T, i onejob.Intent) string {
	t.Helper()
	sum, err := onejob.Fingerprint(i, depth)
	if err != nil {
		t.Fatalf("Fingerprint: %v", err)
	}
	return fmt.Sprintf("%x", sum)
}

func TestFingerprintsMatchTheSharedVectors(t *testing.T) {
	t.Parallel()
	type vector struct {
		A, B, Why   string
		Same, Error bool
	}
	for _, v := range readCases[vector](t, "fingerprints.json") {
		t.Run(v.Why, func(t *testing.T) {
			if v.Error {
				_, err := onejob.Fingerprint(intentWith(v.A), depth)
				mustRefuse(t, err, "input")
				return
			}
			if same := mustFingerprint(t, intentWith(v.A)) == mustFingerprint(t, intentWith(v.B)); same != v.Same {
				t.Errorf("%s and %s: same = %v, want %v", v.A, v.B, same, v.Same)
			}
		})
	}
}

// TestFingerprintIsStable pins version 1: a stored fingerprint must match for ever.
func TestFingerprintIsStable(t *testing.T) {
	t.Parallel()
	i := onejob.Intent{Kind: "ticket", Provider: "primary", Fallbacks: []string{"second"}, Hedge: true, CallbackURL: "https://acme.example/cb", Input: json.RawMessage(`{"b":[1.50,"é"],"a":null}`)}
	const want = "46844edfd7092f1315c0230e14a600edca217a4c868b9a6acc9c97b66f770922"
	if got := mustFingerprint(t, i); got != want || onejob.FingerprintVersion != 1 {
		t.Errorf("fingerprint %s (version %d), want %s: raise FingerprintVersion and keep the old form", got, onejob.FingerprintVersion, want)
	}
}

func TestSpellingsOfOneValueShareAFingerprint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, a, b string }{
		{"negative zero", `-0.0`, `0`},
		{"zero with an exponent", `0e999`, `0`},
		{"fractions", `[0.50, 5e-1]`, `[5E-01,0.5]`},
		{"trailing zeros of 30 digits", `100000000000000000000000000000`, `1e29`},
		{"a surrogate pair", `"\ud83e\uddfe"`, `"🧾"`},
		{"escaped solidus", `"a\/b"`, `"a/b"`},
		{"escaped member name", `{"\u0061":1}`, `{"a":1}`},
		{"nested member order", `{"o":{"x":1,"y":{"b":2,"a":1}}}`, `{"o":{"y":{"a":1,"b":2},"x":1}}`},
		{"white space around", "\n\t 7 \r\n", `7`},
		{"empty containers", `{"a":[ ],"b":{ }}`, `{"b":{},"a":[]}`},
	} {
		t.Run(c.why, func(t *testing.T) {
			if mustFingerprint(t, intentWith(c.a)) != mustFingerprint(t, intentWith(c.b)) {
				t.Errorf("%s and %s differ", c.a, c.b)
			}
		})
	}
}

func TestDifferentValuesHaveDifferentFingerprints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, a, b string }{
		{"normal forms", `"é"`, `"e\u0301"`},
		{"sign", `-1`, `1`},
		{"exponent beyond float64", `1e400`, `1e401`},
		{"tiny exponent", `1e-400`, `0`},
		{"twenty digits", `12345678901234567890`, `12345678901234567891`},
		{"nesting", `[[1],2]`, `[[1,2]]`},
		{"null and false", `null`, `false`},
		{"empty containers", `{}`, `[]`},
		{"name and value", `{"a":"b"}`, `{"b":"a"}`},
		{"text that looks like structure", `["a,b"]`, `["a","b"]`},
	} {
		t.Run(c.why, func(t *testing.T) {
			if mustFingerprint(t, intentWith(c.a)) == mustFingerprint(t, intentWith(c.b)) {
				t.Errorf("%s and %s are the same", c.a, c.b)
			}
		})
	}
}

func TestEveryPartOfTheIntentIsInTheFingerprint(t *testing.T) {
	t.Parallel()
	base := onejob.Intent{Kind: "k", Provider: "p", Fallbacks: []string{"a", "b"}, Input: json.RawMessage(`1`)}
	for why, change := range map[string]func(*onejob.Intent){
		"kind":             func(i *onejob.Intent) { i.Kind = "k2" },
		"provider":         func(i *onejob.Intent) { i.Provider = "p2" },
		"fallback order":   func(i *onejob.Intent) { i.Fallbacks = []string{"b", "a"} },
		"fewer fallbacks":  func(i *onejob.Intent) { i.Fallbacks = []string{"a"} },
		"hedge":            func(i *onejob.Intent) { i.Hedge = true },
		"callback":         func(i *onejob.Intent) { i.CallbackURL = "https://acme.example" },
		"input":            func(i *onejob.Intent) { i.Input = json.RawMessage(`2`) },
		"a moved boundary": func(i *onejob.Intent) { i.Kind, i.Provider = "kp", "" },
		"joined fallbacks": func(i *onejob.Intent) { i.Fallbacks = []string{`a","b`} },
	} {
		t.Run(why, func(t *testing.T) {
			changed := base
			change(&changed)
			if mustFingerprint(t, base) == mustFingerprint(t, changed) {
				t.Errorf("%+v and %+v are the same", base, changed)
			}
		})
	}
}

func TestNoFallbacksIsTheSameAsAnEmptyList(t *testing.T) {
	t.Parallel()
	none, empty := intentWith(`1`), intentWith(`1`)
	empty.Fallbacks = []string{}
	if mustFingerprint(t, none) != mustFingerprint(t, empty) {
		t.Error("nil and empty fallbacks differ")
	}
}

func TestInputThatIsNotOneJSONValueIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ why, input, word string }{
		{"lone high surrogate", `"\ud83e"`, "surrogate"},
		{"lone low surrogate", `"\uddfe"`, "surrogate"},
		{"surrogates the wrong way round", `"\uddfe\ud83e"`, "surrogate"},
		{"lone surrogate in a name", `{"\ud83e":1}`, "surrogate"},
		{"invalid UTF-8", "\"\xff\"", "UTF-8"},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", "UTF-8"},
		{"byte order mark", "\ufeff1", "not JSON"},
		{"empty", "", "empty"},
		{"white space only", " \n", "empty"},
		{"cut short", `{"a":[1,`, "ends in the middle"},
		{"same name in two spellings", `{"a":1,"\u0061":2}`, "duplicate"},
		{"deep duplicate", `[[{"a":{"b":1,"b":1}}]]`, "duplicate"},
		{"leading zero", `01`, ""},
		{"plus", `+1`, ""},
		{"comment", `{}//`, ""},
		{"single quotes", `{'a':1}`, ""},
		{"trailing comma", `[1,]`, ""},
		{"control character", "\"a\nb\"", ""},
		{"second value", `1 2`, ""},
		{"exponent of 20 digits", `1e12345678901234567890`, "exponent"},
		{"exponent of 20 digits, negative", `{"a":[-1E-12345678901234567890]}`, "exponent"},
	} {
		t.Run(c.why, func(t *testing.T) {
			_, err := onejob.Fingerprint(intentWith(c.input), depth)
			mustRefuse(t, err, c.word)
		})
	}
}

func TestDepthIsLimited(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	mustFingerprint(t, intentWith(nested(depth)))
	_, err := onejob.Fingerprint(intentWith(nested(depth+1)), depth)
	mustRefuse(t, err, "deeper than 200", "flatten")
	_, err = onejob.Fingerprint(intentWith(strings.Repeat(`{"a":`, 100_000)), depth)
	mustRefuse(t, err, "deeper than 200")
}

func TestMegabyteInputs(t *testing.T) {
	t.Parallel()
	long := `"` + strings.Repeat("日本語", 120_000) + `"`
	digits := strings.Repeat("9", 1<<20)
	var members bytes.Buffer
	for i := range 60_000 {
		fmt.Fprintf(&members, `,"member-%d":%d`, i, i)
	}
	for why, input := range map[string]string{"text": long, "number": digits, "members": "{" + members.String()[1:] + "}"} {
		t.Run(why, func(t *testing.T) {
			if mustFingerprint(t, intentWith(input)) != mustFingerprint(t, intentWith(" "+input+"\n")) {
				t.Error("white space changed the fingerprint")
			}
		})
	}
	if mustFingerprint(t, intentWith(digits)) == mustFingerprint(t, intentWith(digits[:len(digits)-1]+"8")) {
		t.Error("the last of a million digits does not count")
	}
}

func TestDeepMembersInAnyOrderAreTheSameIntent(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"b":1,"a":`, 199) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 199)
	other := strings.Repeat(`{"a":`, 199) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat(`,"b":1}`, 199)
	a, errA := onejob.Fingerprint(onejob.Intent{Kind: "k", Provider: "p", Input: []byte(deep)}, 200)
	b, errB := onejob.Fingerprint(onejob.Intent{Kind: "k", Provider: "p", Input: []byte(other)}, 200)
	if errA != nil || errB != nil || a != b {
		t.Errorf("fingerprints %x and %x, errors %v and %v: want them equal", a, b, errA, errB)
	}
}
