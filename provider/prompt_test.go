package provider_test

import (
	"strings"
	"testing"

	"github.com/onejob/onejob/provider"
)

// What a certificate is of names the server, and no secret.
func TestVersionSaysWhereTheAdapterAsks(t *testing.T) {
	for address, want := range map[string]string{
		"":                                     "v/1",
		"https://Api.Example/v1/":              "v/1 https://api.example/v1",
		"https://me:hunter2@api.example/v1":    "v/1 https://api.example/v1",
		"http://127.0.0.1:8080/V1":             "v/1 http://127.0.0.1:8080/V1",
		"https://api.example/v1?key=hunter2":   "v/1 https://api.example/v1?sha256:",
		"https://api.example/v1?key=hunter2#f": "v/1 https://api.example/v1?sha256:",
	} {
		got := provider.VersionAt("v/1", address)
		if prefix, hashed := strings.CutSuffix(want, "sha256:"); got != want && (!hashed || !strings.HasPrefix(got, prefix)) || strings.Contains(got, "hunter2") {
			t.Errorf("%s is asked as %q, want %q", address, got, want)
		}
	}
	long := "https://api.example/" + strings.Repeat("a", 5000)
	one, other := provider.VersionAt("v/1", long), provider.VersionAt("v/1", long+"b")
	if one == other || len(one) > 300 {
		t.Errorf("%q and %q", one, other)
	}
	if one, other := provider.VersionAt("v/1", "https://h/?model=a"), provider.VersionAt("v/1", "https://h/?model=b"); one == other {
		t.Errorf("another query makes no other version: %q", one)
	}
}
