package wire_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
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
		problem string // of a header that is refused
	}{
		{"section 2.1: a String", []string{`"8e03978e-40d5-43e8-bc93-6894a57f9324"`}, "8e03978e-40d5-43e8-bc93-6894a57f9324", ""},
		{"section 2.1: the example", []string{`"clkyoesmbgybucifusbbtdsbohtyuuwz"`}, "clkyoesmbgybucifusbbtdsbohtyuuwz", ""},
		{"section 2.7: required and missing is 400", nil, "", missing},
		{"RFC 9651: escapes of quote and backslash", []string{`"a\"b\\c"`}, `a"b\c`, ""},
		{"RFC 9651: other escapes are none", []string{`"a\nb"`}, "", invalid},
		{"RFC 9651: parameters of an item are ignored", []string{`"a";b=1`}, "a", ""},
		{"RFC 9651: spaces around are none of it", []string{"  \"a\"\t"}, "a", ""},
		{"RFC 9651: a String is ASCII", []string{`"ü"`}, "", invalid},
		{"RFC 9651: an open String is none", []string{`"a`}, "", invalid},
		{"RFC 9651: nothing behind a String", []string{`"a" b`}, "", invalid},
		{"an Item is no List", []string{`"a", "b"`}, "", invalid},
		{"two headers are a List", []string{`"a"`, `"b"`}, "", invalid},
		{"two equal headers are two", []string{`"a"`, `"a"`}, "", invalid},
		{"two bare ones, joined by a proxy", []string{"a, b"}, "", invalid},
		{"bare, as most clients send it", []string{"parcel-1"}, "parcel-1", ""},
		{"bare, a UUID", []string{"8e03978e-40d5-43e8-bc93-6894a57f9324"}, "8e03978e-40d5-43e8-bc93-6894a57f9324", ""},
		{"bare, like an Integer", []string{"42"}, "42", ""},
		{"bare, like a Byte Sequence", []string{":YWJj:"}, ":YWJj:", ""},
		{"bare, with a semicolon", []string{"a;b=1"}, "a;b=1", ""},
		{"bare, with a space", []string{"order 7"}, "order 7", ""},
		{"bare, in UTF-8", []string{"bücher-1"}, "bücher-1", ""},
		{"bare, in Latin-1", []string{"b\xfccher"}, "", invalid},
		{"bare, with a quote in it", []string{`a"b`}, "", invalid},
		{"empty", []string{""}, "", invalid},
		{"blank", []string{"  "}, "", invalid},
		{"an empty String", []string{`""`}, "", invalid},
		{"a String of blanks", []string{`"  "`}, "", invalid},
		{"a String with a blank at its end", []string{`"a "`}, "", invalid},
		{"255 bytes", []string{strings.Repeat("a", 255)}, strings.Repeat("a", 255), ""},
		{"256 bytes", []string{strings.Repeat("a", 256)}, "", invalid},
		{"a control character", []string{"a\x01b"}, "", invalid},
		{"a date, in quotes", []string{`"2026-11-30T10:00:00Z"`}, "2026-11-30T10:00:00Z", ""},
	} {
		key, err := wire.Key(c.values)
		e, refused := errors.AsType[*wire.KeyError](err)
		switch {
		case c.problem == "" && (err != nil || key != c.key):
			t.Errorf("%s: %q is %q, %v; want %q", c.why, c.values, key, err, c.key)
		case c.problem != "" && (!refused || e.Missing != (c.problem == missing) || e.Line == ""):
			t.Errorf("%s: %q is %q, %v; want %s", c.why, c.values, key, err, c.problem)
		}
	}
}

// How a header is refused.
const missing, invalid = "missing", "invalid"

// FuzzKeyHeader: whatever stands there is refused in one line or is a key that a job can have, the
// same in quotes where quotes can hold it.
func FuzzKeyHeader(f *testing.F) {
	for _, seed := range []string{`"a"`, "a", `"a\"b"`, "a, b", `"`, ``, `"a";b`, "ü", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := wire.Key([]string{value})
		if e, ok := errors.AsType[*wire.KeyError](err); err != nil {
			if !ok || e.Missing || !utf8.ValidString(e.Line) || strings.ContainsAny(e.Line, "\r\n") {
				t.Fatalf("%q got %v", value, err)
			}
			return
		}
		if err := onejob.CheckIdentity("acme", key); err != nil {
			t.Fatalf("%q is the key %q: %v", value, key, err)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		again, err := wire.Key([]string{quoted})
		if ascii := strings.IndexFunc(key, func(r rune) bool { return r > 0x7e }) < 0; ascii && (err != nil || again != key) {
			t.Fatalf("%q is %q bare and %q, %v in quotes", value, key, again, err)
		}
	})
}
