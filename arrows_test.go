package onejob_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/onejob/onejob"

// mayImport lists, folder by folder, what else of this module its packages may import.
// A folder stands for everything below it. The arrows point one way: towards the words.
var mayImport = map[string][]string{
	"":           {},
	"provider":   {""},
	"migrations": {},
	"messages":   {""},
	"postgres":   {"", "migrations", "messages"},
	"certify":    {"", "contract", "provider"},
	"activities": {"", "provider", "contract", "certify", "postgres"},
	"workflows":  {"", "certify", "postgres", "activities"},
	"starter":    {"", "postgres", "workflows"},
	"callbacks":  {"", "provider", "postgres", "activities"},
	"webhooks":   {"", "provider", "messages", "postgres"},
	"worker":     {"", "provider", "contract", "messages", "postgres", "activities", "callbacks", "webhooks", "workflows"},
	"api":        {"", "messages", "postgres", "starter", "webhooks"},
	"config":     {"", "provider", "contract", "internal"},
	"contract":   {"", "internal"},
	"internal":   {""},
	"simulator":  {},
	"dev":        {},
}

// testOnly are packages that only tests and programs may import.
var testOnly = []string{"postgres/pgtest", "dev/testservers", "faults/pgproxy", "workflows/replay"}

// programs may import whatever they like.
var programs = []string{"cmd", "bench", "e2e", "faults", "examples", "deploy", "mutants", "dev/withservers", "postgres/pgtest", "dev/testservers", "workflows/replay"}

func TestDependenciesPointOneWay(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		checkImports(t, within(fields[0]), fields[1:])
	}
}

func checkImports(t *testing.T, folder string, imports []string) {
	if inFolder(folder, programs...) {
		return
	}
	top, _, _ := strings.Cut(folder, "/")
	allowed, ok := mayImport[top]
	if !ok {
		t.Errorf("folder %q has no arrows yet: say in mayImport what it may import", folder)
		return
	}
	for _, path := range imports {
		if !strings.HasPrefix(path, module) {
			continue
		}
		imported := within(path)
		importedTop, _, _ := strings.Cut(imported, "/")
		if inFolder(imported, testOnly...) || importedTop != top && !slices.Contains(allowed, importedTop) {
			t.Errorf("%q may not import %q", folder, imported)
		}
	}
}

func within(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func inFolder(folder string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return folder == f || strings.HasPrefix(folder, f+"/") })
}
