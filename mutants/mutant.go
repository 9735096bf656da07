package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is a known mistake.
type mutant struct {
	name    string
	mistake string
	patch   string // absolute path
	guards  []tests
	spares  []tests
}

// tests are tests of one package.
type tests struct {
	pkg   string
	names []string // with their sub-tests as `go test` prints them: TestX/in_this_case
}

func (t tests) String() string { return t.pkg + " " + strings.Join(t.names, " ") }

// String is the mistake as -list prints it.
func (m mutant) String() string {
	lines := []string{m.name + ": " + m.mistake}
	for _, guard := range m.guards {
		lines = append(lines, "    "+guard.String())
	}
	return strings.Join(lines, "\n")
}

// readMutants reads the patches of the folder whose names match, in the order of their names.
func readMutants(folder string, names *regexp.Regexp) ([]mutant, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	patches, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	var mutants []mutant
	for _, patch := range patches {
		m, err := readMutant(patch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", patch, err)
		}
		if names.MatchString(m.name) {
			mutants = append(mutants, m)
		}
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("%s has no patch whose name matches %q", folder, names)
	}
	return mutants, nil
}

func readMutant(patch string) (mutant, error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(patch), ".patch"), patch: patch}
	header, _, _ := strings.Cut(string(text), "\n--- ")
	for line := range strings.Lines(header) {
		if err := m.readLine(strings.TrimSpace(line)); err != nil {
			return m, err
		}
	}
	if m.mistake == "" || len(m.guards) == 0 || len(m.spares) == 0 {
		return m, errors.New("its header lacks a line: it needs Mistake, Guard and Spares")
	}
	return m, nil
}

// readLine reads a line of the header. What is none of its words is for people, or for git.
func (m *mutant) readLine(line string) (err error) {
	word, rest, _ := strings.Cut(line, ": ")
	switch word {
	case "Mistake":
		m.mistake = rest
	case "Guard":
		m.guards, err = appendTests(m.guards, rest)
	case "Spares":
		m.spares, err = appendTests(m.spares, rest)
	}
	return err
}

func appendTests(all []tests, line string) ([]tests, error) {
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "." && !strings.HasPrefix(words[0], "./") {
		return nil, fmt.Errorf("%q names no tests: write ./package TestName", line)
	}
	return append(all, tests{words[0], words[1:]}), nil
}

// byPackage joins the lists: one entry a package, with its tests in order and once.
func byPackage(lists ...[]tests) []tests {
	var joined []tests
	for _, t := range slices.Concat(lists...) {
		at := slices.IndexFunc(joined, func(j tests) bool { return j.pkg == t.pkg })
		if at < 0 {
			joined, at = append(joined, tests{pkg: t.pkg}), len(joined)
		}
		joined[at].names = append(joined[at].names, t.names...)
	}
	for i := range joined {
		slices.Sort(joined[i].names)
		joined[i].names = slices.Compact(joined[i].names)
	}
	return joined
}

func count(lists []tests) (n int) {
	for _, t := range lists {
		n += len(t.names)
	}
	return n
}
