package onejob

import (
	"bytes"
	stdjson "encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzCheckIdentity(f *testing.F) {
	for _, name := range []string{"", "acme", "onejob:certification", "order 45", " k", "k\u200b", "a\x00b", "\xff", "दुकान", strings.Repeat("k", 256)} {
		f.Add(name, "k")
		f.Add("o", name)
	}
	f.Fuzz(func(t *testing.T, owner, key string) {
		err := CheckIdentity(owner, key)
		checkErrorLine(t, err)
		fits := 1 <= len(owner) && len(owner) <= MaxOwnerBytes && 1 <= len(key) && len(key) <= MaxKeyBytes
		text := owner + "\u2028" + key
		if err == nil && (!fits || !utf8.ValidString(text) || strings.HasPrefix(owner, "onejob:") || strings.ContainsAny(text, "\x00\n\r\t")) {
			t.Errorf("(%q, %q) is taken", owner, key)
		}
	})
}

func FuzzWorkflowID(f *testing.F) {
	f.Add("acme", "order-45")
	f.Add("a/b", "c%2F")
	f.Add("\xff", strings.Repeat("ß", 100))
	f.Fuzz(func(t *testing.T, owner, key string) {
		id := WorkflowID(owner, key)
		if len(id) > maxWorkflowIDBytes {
			t.Fatalf("%d bytes", len(id))
		}
		pair, short := strings.CutPrefix(id, "job/")
		if !short {
			if !strings.HasPrefix(id, "job-sha256/") {
				t.Fatalf("id %q", id)
			}
			return
		}
		// What can be read back is injective.
		escapedOwner, escapedKey, _ := strings.Cut(pair, "/")
		if unescape(t, escapedOwner) != owner || unescape(t, escapedKey) != key {
			t.Errorf("(%q, %q) became %q", owner, key, id)
		}
	})
}

// unescape reads percent-encoding without the code under test.
func unescape(t *testing.T, s string) string {
	var text []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			text = append(text, s[i])
			continue
		}
		high, low := strings.IndexByte("0123456789ABCDEF", s[i+1]), strings.IndexByte("0123456789ABCDEF", s[i+2])
		if high < 0 || low < 0 {
			t.Fatalf("%q is not encoded in upper-case hex", s)
		}
		text = append(text, byte(high<<4|low))
		i += 2
	}
	return string(text)
}

func FuzzFingerprint(f *testing.F) {
	for _, text := range []string{`{"b":1,"a":[1.50,-0,1e2]}`, `"\ud83e\uddfe"`, `{"x":1,"x":2}`, `1e99999999999999999999`, `[[[[]]]]`, `12345678901234567890`, `{"<&>":"\u2028"}`, `nul`, "\xff"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const depth = 50
		canonical, err := CanonicalJSON("input", text, depth)
		checkErrorLine(t, err)
		if err != nil {
			return
		}
		if again, err := CanonicalJSON("input", canonical, depth); err != nil || !bytes.Equal(again, canonical) {
			t.Errorf("canonical %s became %s (%v)", canonical, again, err)
		}
		first, second := Intent{Input: text}, Intent{Input: respell(t, text)}
		a, errA := Fingerprint(first, depth)
		b, errB := Fingerprint(second, depth)
		if errA != nil || errB != nil || a != b {
			t.Errorf("%s and %s differ (%v, %v)", first.Input, second.Input, errA, errB)
		}
	})
}

// respell writes the same value in another order, with other escapes and white space.
func respell(t *testing.T, text []byte) []byte {
	d := stdjson.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%s is taken, and the standard library says %v", text, err)
	}
	respelled, err := stdjson.MarshalIndent(value, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return respelled
}

func FuzzDecodeRequest(f *testing.F) {
	for _, text := range []string{
		`{"owner":"acme","key":"k","kind":"ticket","provider":"p","input":null,"timeout":"10s","labels":{"a":"b"}}`,
		`{"Owner":"o"}`, `{"owner":"a","owner":"b"}`, `{}{}`, `{"timeout":"10"}`, `[]`, `null`, `{"input":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeRequest(text)
		checkErrorLine(t, err)
		if err != nil {
			return
		}
		encoded, err := stdjson.Marshal(r)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if _, err := DecodeRequest(encoded); len(r.Input) > 0 && err != nil {
			t.Errorf("%s became %s: %v", text, encoded, err)
		}
	})
}

// checkErrorLine wants every error to be an invalid request in one short line.
func checkErrorLine(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if CodeOf(err) != CodeInvalidRequest || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 1000 {
		t.Errorf("code %q: %.300q", CodeOf(err), err)
	}
}
