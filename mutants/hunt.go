package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// errNotSeen says that a mistake was not killed.
var errNotSeen = errors.New("not every mistake was seen")

// hunt runs the mistakes on copies of the tree, and the tests without any before and after:
// those before say that a guard is red for the mistake, those after that the servers were
// still there for the last one.
func hunt(ctx context.Context, root string, copies int, mutants []mutant, w io.Writer) (err error) {
	began := time.Now()
	folder, err := os.MkdirTemp("", "onejob-mutants-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	trees, err := copyTrees(ctx, root, folder, copies)
	if err != nil {
		return err
	}
	h := &hunter{w: w, trees: trees}
	if err := h.withoutMistake(ctx, mutants); err != nil {
		return err
	}
	if err := h.withEach(ctx, mutants); err != nil {
		return err
	}
	if err := h.withoutMistake(ctx, mutants); err != nil {
		return err
	}
	return h.sum(len(mutants), time.Since(began))
}

// hunter runs tests in several trees at once.
type hunter struct {
	trees []tree

	mu     sync.Mutex
	w      io.Writer
	killed int
}

// withoutMistake runs all the tests that the mutants name, which must be green.
func (h *hunter) withoutMistake(ctx context.Context, mutants []mutant) error {
	began := time.Now()
	var lists [][]tests
	for _, m := range mutants {
		lists = append(lists, m.guards, m.spares)
	}
	packages := byPackage(lists...)
	err := inTrees(ctx, h.trees, packages, func(ctx context.Context, t tree, which tests) error {
		got, err := t.runTests(ctx, which)
		if err != nil {
			return err
		}
		return got.healthy(which.pkg, which.names)
	})
	if err == nil {
		fmt.Fprintf(h.w, "%6.1fs  without any mistake %d tests are green\n", time.Since(began).Seconds(), count(packages))
	}
	return err
}

func (h *hunter) withEach(ctx context.Context, mutants []mutant) error {
	return inTrees(ctx, h.trees, mutants, func(ctx context.Context, t tree, m mutant) error {
		began := time.Now()
		what, err := t.try(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		h.tell(m, what, time.Since(began))
		return nil
	})
}

func (h *hunter) tell(m mutant, what found, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if what.verdict == killed {
		h.killed++
	}
	fmt.Fprintf(h.w, "%6.1fs  %s  %s\n", took.Seconds(), what.verdict, m.name)
	if what.verdict != killed {
		fmt.Fprintf(h.w, "%s\n%s\n%s\n", m, what.why, strings.TrimRight(what.output, "\n"))
	}
}

func (h *hunter) sum(all int, took time.Duration) error {
	fmt.Fprintf(h.w, "%d of %d mistakes were seen, in %s\n", h.killed, all, took.Round(time.Second))
	if h.killed < all {
		return errNotSeen
	}
	return nil
}

// try puts the mistake in, runs the tests that it names, and takes it back. It stops at the
// first package that does not see it.
func (t tree) try(ctx context.Context, m mutant) (what found, err error) {
	defer func() { err = errors.Join(err, t.restore(context.WithoutCancel(ctx))) }()
	if err := t.apply(ctx, m.patch); err != nil {
		return found{stale, "", err.Error()}, ctx.Err()
	}
	guards, spares := byName(m.guards), byName(m.spares)
	for _, which := range byPackage(m.guards, m.spares) {
		got, err := t.runTests(ctx, which)
		if err != nil {
			return found{}, err
		}
		if what = got.judge(guards[which.pkg], spares[which.pkg]); what.verdict != killed {
			return what, nil
		}
	}
	return what, nil
}

// byName returns the tests' names by their package.
func byName(lists []tests) map[string][]string {
	names := map[string][]string{}
	for _, t := range lists {
		names[t.pkg] = append(names[t.pkg], t.names...)
	}
	return names
}
