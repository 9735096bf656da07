package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// What became of a test, in the words of test2json.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
)

// testTimeout ends tests that a mistake made wait for ever: they count as failed.
const testTimeout = 3 * time.Minute

// tested is what became of a package's tests.
type tested struct {
	outcome  string            // of the package
	tests    map[string]string // by name; a test that did not run is not there
	output   map[string]string // by test; the package's own under ""
	compiler string            // what the compiler said
	compiled bool
}

// runTests runs the tests in the tree, and no others of their package.
func (t tree) runTests(ctx context.Context, which tests) (tested, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-vet=off", "-timeout", testTimeout.String(),
		"-run", pattern(which.names), which.pkg)
	cmd.Dir, cmd.Env = t.folder, environWithoutGit()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	ended := cmd.Run() // its error says that tests failed: the events say which
	got, err := readEvents(&out)
	if err != nil || ctx.Err() != nil {
		return got, errors.Join(err, ctx.Err())
	}
	if got.outcome == "" {
		return got, fmt.Errorf("go test %s told nothing: %w: %s", which.pkg, ended, strings.TrimSpace(said.String()))
	}
	return got, nil
}

// pattern is the -run of exactly these tests.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		parts := strings.Split(name, "/")
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}

// event is a line of `go test -json`: see `go doc test2json`.
type event struct {
	Action      string
	Test        string
	Output      string
	FailedBuild string
}

func readEvents(r io.Reader) (tested, error) {
	got := tested{tests: map[string]string{}, output: map[string]string{}, compiled: true}
	for decoder := json.NewDecoder(r); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return got, nil
		} else if err != nil {
			return got, fmt.Errorf("read what go test told: %w", err)
		}
		got.take(e)
	}
}

func (t *tested) take(e event) {
	switch e.Action {
	case "build-output":
		t.compiler += e.Output
	case "output":
		t.output[e.Test] += e.Output
	case passed, failed, skipped:
		if e.Test != "" {
			t.tests[e.Test] = e.Action
			return
		}
		t.outcome, t.compiled = e.Action, e.FailedBuild == ""
	}
}

// said is what the tests of that outcome printed, and the package beside them.
func (t *tested) said(outcome string) string {
	var all []string
	for name, text := range t.output {
		if t.tests[name] == outcome || name == "" {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return t.compiler + strings.Join(all, "")
}
