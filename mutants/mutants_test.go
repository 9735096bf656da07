package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fixture returns a copy of the fixture's tree, which is a git repository.
func fixture(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", "fixture"))); err != nil {
		t.Fatal(err)
	}
	if _, err := git(t.Context(), root, "init", "--quiet"); err != nil {
		t.Fatal(err)
	}
	return root
}

// runIn runs the fixture's mistakes whose names match, and returns what was printed.
func runIn(t *testing.T, root, names string, copies int) (printed string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = run(t.Context(), options{run: regexp.MustCompile(names), copies: copies}, root, &out)
	t.Log(out.String())
	return out.String(), err
}

func mustSay(t *testing.T, printed string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !regexp.MustCompile(want).MatchString(printed) {
			t.Errorf("nothing said %q", want)
		}
	}
}

// One copy: what a mistake leaves behind would be the next one's.
func TestMistakesAreToldApart(t *testing.T) {
	t.Parallel()
	printed, err := runIn(t, fixture(t), "", 1)
	if !errors.Is(err, errNotSeen) {
		t.Errorf("it ended with %v", err)
	}
	mustSay(t, printed,
		`s  killed  seen\n`, `s  killed  seen-in-one-case\n`,
		`SURVIVED  zero-seen-by-none\n(?s:.*)green: TestSum/of_nothing`,
		`STALE  stale\n(?s:.*)patch does not apply`,
		`DID NOT COMPILE  uncompiled\n(?s:.*)undefined: c`,
		`PROVES NOTHING  breaks-more\n(?s:.*)red too: TestDifference`,
		`PROVES NOTHING  never-starts\n(?s:.*)did not run: TestSum TestDifference(?s:.*)it never starts`,
		`2 of 7 mistakes were seen`)
}

func TestRunEndsWellWhenAllIsSeen(t *testing.T) {
	t.Parallel()
	printed, err := runIn(t, fixture(t), "^seen", 2)
	if err != nil {
		t.Errorf("it ended with %v", err)
	}
	mustSay(t, printed, `2 of 2 mistakes were seen`)
	if n := strings.Count(printed, "without any mistake 3 tests are green"); n != 2 {
		t.Errorf("the tests ran %d times without any mistake, not before and after", n)
	}
}

// What is red anyway, or does not exist, would see every mistake or none.
func TestGuardsMustBeGreenWithoutAMistake(t *testing.T) {
	t.Parallel()
	for why, change := range map[string][2]string{
		"is red without any mistake: TestSum": {"got != 5", "got != 6"},
		"has no such tests: TestSum":          {"func TestSum(", "func TestTotal("},
		"does not compile without any":        {"got != 5", "got != five"},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			root := fixture(t)
			replace(t, filepath.Join(root, "sum_test.go"), change[0], change[1])
			if _, err := runIn(t, root, "^seen$", 1); err == nil || !strings.Contains(err.Error(), why) || errors.Is(err, errNotSeen) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func replace(t *testing.T, path, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s has no %q: %v", path, old, err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(replacement), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestIncompletePatchIsRefused(t *testing.T) {
	t.Parallel()
	for why, header := range map[string]string{
		"lacks a line":   "Mistake: no guard.\nSpares: . TestDifference\n",
		"names no tests": "Mistake: a guard without a test.\nGuard: ./sum\nSpares: . TestDifference\n",
	} {
		root := fixture(t)
		if err := os.WriteFile(filepath.Join(root, "mutants", "patches", "incomplete.patch"), []byte(header+"\n--- a/sum.go\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := runIn(t, root, "", 1); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("it ended with %v", err)
		}
	}
}

func TestInterruptedRunIsNoVerdict(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(ctx, options{run: regexp.MustCompile(""), copies: 1}, fixture(t), &bytes.Buffer{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, errNotSeen) {
		t.Errorf("it ended with %v", err)
	}
}

// The mistakes of this tree can be read, and their tests are there.
func TestEveryPatchNamesTestsThatExist(t *testing.T) {
	t.Parallel()
	mutants, err := readMutants("patches", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		for _, which := range byPackage(m.guards, m.spares) {
			mustExist(t, m.name, which)
		}
	}
}

func mustExist(t *testing.T, mutant string, which tests) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", which.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	for _, name := range which.names {
		top, _, _ := strings.Cut(name, "/")
		if !bytes.Contains(all, []byte("\nfunc "+top+"(t *testing.T)")) {
			t.Errorf("%s names %s, which %s does not have", mutant, name, which.pkg)
		}
	}
}

// A mistake that no longer applies guards nothing until somebody runs it.
func TestEveryPatchApplies(t *testing.T) {
	t.Parallel()
	patches, err := filepath.Glob(filepath.Join("patches", "*.patch"))
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, patch := range patches {
		if out, err := git(t.Context(), "..", "apply", "--check", filepath.Join("mutants", patch)); err != nil {
			t.Errorf("%s: %v\n%s", patch, err, out)
		}
	}
}
