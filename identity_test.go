package onejob_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onejob/onejob"
)

// readCases reads a file of shared vectors.
func readCases[T any](t *testing.T, name string) []T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s holds no case", name)
	}
	return cases
}

// mustRefuse checks that err is an invalid request told in one line, in lower case,
// that holds every one of the wanted words.
func mustRefuse(t *testing.T, err error, words ...string) {
	t.Helper()
	if onejob.CodeOf(err) != onejob.CodeInvalidRequest {
		t.Fatalf("want an invalid request, got %v (code %q)", err, onejob.CodeOf(err))
	}
	line := err.Error()
	if strings.ContainsAny(line, "\n\r") || len(line) > 500 {
		t.Errorf("not one short line: %.300q", line)
	}
	if first := line[:1]; first != strings.ToLower(first) || strings.HasSuffix(line, ".") {
		t.Errorf("not in lower case without a full stop: %q", line)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%.300q does not mention %q", line, word)
		}
	}
}

func TestWorkflowIDsMatchTheSharedVectors(t *testing.T) {
	t.Parallel()
	type vector struct {
		Owner, Key string
		WorkflowID string `json:"workflow_id"`
	}
	for _, v := range readCases[vector](t, "workflow_ids.json") {
		if got := onejob.WorkflowID(v.Owner, v.Key); got != v.WorkflowID {
			t.Errorf("WorkflowID(%q, %q) = %q, want %q", v.Owner, v.Key, got, v.WorkflowID)
		}
		if err := onejob.CheckIdentity(v.Owner, v.Key); err != nil {
			t.Errorf("CheckIdentity(%q, %q) = %v, want it valid", v.Owner, v.Key, err)
		}
	}
}

func TestInvalidIdentitiesAreRefused(t *testing.T) {
	t.Parallel()
	type vector struct{ Owner, Key, Why string }
	cases := readCases[vector](t, "invalid_identities.json")
	cases = append(cases,
		vector{"o", "k\u0085", "C1 control character"},
		vector{"o\u007f", "k", "delete"},
		vector{"o", "k\u00a0", "no-break space at the end"},
		vector{"o", "\u3000k", "ideographic space at the start"},
		vector{"o", "k\u200b", "zero-width space at the end"},
		vector{"o", "\ufeffk", "byte order mark at the start"},
		vector{"o\xff", "k", "owner not UTF-8"},
		vector{"o", "\xed\xa0\x80", "an encoded surrogate"},
		vector{"o", strings.Repeat("é", 128), "256 bytes in 128 characters"},
	)
	for _, v := range cases {
		t.Run(v.Why, func(t *testing.T) { mustRefuse(t, onejob.CheckIdentity(v.Owner, v.Key)) })
	}
}

func TestOwnersOfTheProgramsOwnAreNobodyElses(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{onejob.CertificationOwner, "onejob:", "onejob:anything"} {
		mustRefuse(t, onejob.CheckIdentity(owner, "k"), owner, "reserved", "use another name")
		mustRefuse(t, onejob.CheckOwner(owner), "reserved")
	}
	for _, owner := range []string{"onejob", "onejob-ci", "acme:onejob:", "onejob/certification"} {
		if err := onejob.CheckOwner(owner); err != nil {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
}

func TestIdentityIsTakenAsWritten(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"a b", "a\u200bb", "टिकट", "k/../k", strings.Repeat("k", onejob.MaxKeyBytes), "🧾", "%00"} {
		if err := onejob.CheckIdentity(strings.Repeat("o", onejob.MaxOwnerBytes), key); err != nil {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestIdentityErrorShowsTheStartOfALongValue(t *testing.T) {
	t.Parallel()
	long := "start-" + strings.Repeat("ü", 4000)
	err := onejob.CheckIdentity("acme", long)
	mustRefuse(t, err, "key", `"start-`, "8006 bytes", "at most 255")
}

// identities draws owners and keys, half of them from an alphabet in which a sloppy
// escaping would collide.
func identities(maxBytes int) *rapid.Generator[string] {
	tricky := rapid.StringOfN(rapid.RuneFrom([]rune("/%2Fa ~é")), 1, 20, maxBytes)
	return rapid.OneOf(tricky, rapid.StringN(1, -1, maxBytes))
}

func TestWorkflowIDIsInjective(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owner1, key1 := identities(onejob.MaxOwnerBytes).Draw(t, "owner1"), identities(onejob.MaxKeyBytes).Draw(t, "key1")
		owner2, key2 := identities(onejob.MaxOwnerBytes).Draw(t, "owner2"), identities(onejob.MaxKeyBytes).Draw(t, "key2")
		same := owner1 == owner2 && key1 == key2
		if (onejob.WorkflowID(owner1, key1) == onejob.WorkflowID(owner2, key2)) != same {
			t.Fatalf("(%q, %q) and (%q, %q): %s", owner1, key1, owner2, key2, onejob.WorkflowID(owner1, key1))
		}
	})
}

// TestWorkflowIDIsInjectiveAcrossTheSlash moves the border between owner and key
// through one text, where an unescaped separator would show.
func TestWorkflowIDIsInjectiveAcrossTheSlash(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a/b/c", "a%2Fb/c", "////", strings.Repeat("/", 190)} {
		seen := map[string]int{}
		for i := 1; i < len(text); i++ {
			id := onejob.WorkflowID(text[:i], text[i:])
			if other, taken := seen[id]; taken {
				t.Errorf("%q cut at %d and at %d share %s", text, other, i, id)
			}
			seen[id] = i
		}
	}
}
