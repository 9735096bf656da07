package provider_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onejob/onejob/provider"
)

func TestDetailIsCleanOfSecrets(t *testing.T) {
	secrets := provider.NewSecrets("Bearer hunter2hunter2", "Basic dXNlcjpwYXNzd29yZA==", "a b&c", "1", "", "longe", "longest")
	for text, want := range map[string]string{
		"plain words stay":                "plain words stay",
		"the longest":                     "the ***",
		"1 of 1":                          "1 of 1",
		"echo Bearer hunter2hunter2 back": "echo *** back",
		"only hunter2hunter2":             "only ***",
		"password is password":            "*** is ***",
		"query a+b%26c":                   "query ***",
		"get https://me:pw@host/path?key=1#f failed":      "get https://host/path?*** failed",
		"at https://host/path":                            "at https://host/path",
		"sent Authorization: Bearer abcdefgh":             "sent Authorization: *** ***",
		"no api_key=xyz&b":                                "no api_key=***&b",
		`{"access_token": "xyz"}`:                         `{"access_token": "***"}`,
		"max_tokens: 4096 exceeded":                       "max_tokens: 4096 exceeded",
		"incorrect key sk-proj-1234567890":                "incorrect key ***",
		"jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl seen": "jwt *** seen",
		"two\r\nlines\tand\x00a nul\u2028b":               "two lines and a nul b",
		"not\xffUTF-8":                                    "not\uFFFDUTF-8",
	} {
		if got := secrets.Clean(text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDetailIsCutBetweenCharacters(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 5000), "x" + strings.Repeat("é", 5000), strings.Repeat("x", 1<<20)} {
		got := provider.Secrets{}.Clean(text)
		if len(got) > 4<<10 || len(got) < 4<<10-2 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
		}
	}
}
