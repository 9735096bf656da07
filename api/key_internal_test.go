package api

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob"
)

// TestKeyHeaderFollowsTheDraft: the rules of draft-ietf-httpapi-idempotency-key-header-07, which
// wants a String of RFC 9651, and what clients send beside it. Where the draft leaves the rest to
// the server, or we differ, why says so.
func TestKeyHeaderFollowsTheDraft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why     string
		values  []string
		key     string
		problem ProblemType // of a header that is refused
	}{
		{"section 2.1: a String", []string{`"8e03978e-40d5-43e8-bc93-6894a57f9324"`}, "8e03978e-40d5-43e8-bc93-6894a57f9324", ProblemType{}},
		{"section 2.1: the example", []string{`"clkyoesmbgybucifusbbtdsbohtyuuwz"`}, "clkyoesmbgybucifusbbtdsbohtyuuwz", ProblemType{}},
		{"section 2.7: required and missing is 400", nil, "", keyMissing},
		{"RFC 9651: escapes of quote and backslash", []string{`"a\"b\\c"`}, `a"b\c`, ProblemType{}},
		{"RFC 9651: other escapes are none", []string{`"a\nb"`}, "", keyInvalid},
		{"RFC 9651: parameters of an item are ignored", []string{`"a";b=1`}, "a", ProblemType{}},
		{"RFC 9651: spaces around are none of it", []string{"  \"a\"\t"}, "a", ProblemType{}},
		{"RFC 9651: a String is ASCII", []string{`"ü"`}, "", keyInvalid},
		{"RFC 9651: an open String is none", []string{`"a`}, "", keyInvalid},
		{"RFC 9651: nothing behind a String", []string{`"a" b`}, "", keyInvalid},
		{"an Item is no List", []string{`"a", "b"`}, "", keyInvalid},
		{"two headers are a List", []string{`"a"`, `"b"`}, "", keyInvalid},
		{"two equal headers are two", []string{`"a"`, `"a"`}, "", keyInvalid},
		{"two bare ones, joined by a proxy", []string{"a, b"}, "", keyInvalid},
		{"bare, as most clients send it", []string{"parcel-1"}, "parcel-1", ProblemType{}},
		{"bare, a UUID", []string{"8e03978e-40d5-43e8-bc93-6894a57f9324"}, "8e03978e-40d5-43e8-bc93-6894a57f9324", ProblemType{}},
		{"bare, like an Integer", []string{"42"}, "42", ProblemType{}},
		{"bare, like a Byte Sequence", []string{":YWJj:"}, ":YWJj:", ProblemType{}},
		{"bare, with a semicolon", []string{"a;b=1"}, "a;b=1", ProblemType{}},
		{"bare, with a space", []string{"order 7"}, "order 7", ProblemType{}},
		{"bare, in UTF-8", []string{"bücher-1"}, "bücher-1", ProblemType{}},
		{"bare, in Latin-1", []string{"b\xfccher"}, "", keyInvalid},
		{"bare, with a quote in it", []string{`a"b`}, "", keyInvalid},
		{"empty", []string{""}, "", keyInvalid},
		{"blank", []string{"  "}, "", keyInvalid},
		{"an empty String", []string{`""`}, "", keyInvalid},
		{"a String of blanks", []string{`"  "`}, "", keyInvalid},
		{"a String with a blank at its end", []string{`"a "`}, "", keyInvalid},
		{"255 bytes", []string{strings.Repeat("a", 255)}, strings.Repeat("a", 255), ProblemType{}},
		{"256 bytes", []string{strings.Repeat("a", 256)}, "", keyInvalid},
		{"a control character", []string{"a\x01b"}, "", keyInvalid},
		{"a date, in quotes", []string{`"2026-11-30T10:00:00Z"`}, "2026-11-30T10:00:00Z", ProblemType{}},
	} {
		key, err := idempotencyKey(http.Header{KeyHeader: c.values})
		p, _ := err.(*Problem)
		switch {
		case c.problem.Name == "" && (err != nil || key != c.key):
			t.Errorf("%s: %q is %q, %v; want %q", c.why, c.values, key, err, c.key)
		case c.problem.Name != "" && (p == nil || p.Type != c.problem.URI() || p.Status != http.StatusBadRequest):
			t.Errorf("%s: %q is %q, %v; want %s", c.why, c.values, key, err, c.problem.Name)
		}
	}
}

// FuzzKeyHeader: whatever stands there is refused with 400 or is a key that a job can have, the
// same in quotes where quotes can hold it.
func FuzzKeyHeader(f *testing.F) {
	for _, seed := range []string{`"a"`, "a", `"a\"b"`, "a, b", `"`, ``, `"a";b`, "ü", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := idempotencyKey(http.Header{KeyHeader: {value}})
		if p, ok := err.(*Problem); err != nil {
			if !ok || p.Status != http.StatusBadRequest || !utf8.ValidString(p.Detail) || strings.ContainsAny(p.Detail, "\r\n") {
				t.Fatalf("%q got %v", value, err)
			}
			return
		}
		if err := onejob.CheckIdentity("acme", key); err != nil {
			t.Fatalf("%q is the key %q: %v", value, key, err)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := idempotencyKey(http.Header{KeyHeader: {quoted}})
		if ascii := strings.IndexFunc(key, func(r rune) bool { return r > 0x7e }) < 0; ascii && (err != nil || again != key) {
			t.Fatalf("%q is %q bare and %q, %v in quotes", value, key, again, err)
		}
	})
}
