package main

import (
	"fmt"
	"strings"
)

// verdict is what became of a mistake.
type verdict string

// The verdicts. Only killed is good.
const (
	killed     verdict = "killed"
	survived   verdict = "SURVIVED" // a guard stayed green
	stale      verdict = "STALE"    // the patch does not apply to the tree as it is
	uncompiled verdict = "DID NOT COMPILE"
	unproven   verdict = "PROVES NOTHING" // something failed beside the guards
)

// found is a verdict with its reason.
type found struct {
	verdict verdict
	why     string
	output  string // of the tests that it is about
}

// judge says what the tests of one package, of which some guard against the mistake and the
// others are spared by it, say of the mistake.
func (t *tested) judge(guards, spares []string) found {
	if !t.compiled {
		return found{uncompiled, "", t.compiler}
	}
	if missing := t.missing(guards, spares); len(missing) > 0 {
		return found{unproven, "did not run: " + strings.Join(missing, " "), t.said(failed)}
	}
	if red := t.of(failed, spares); len(red) > 0 {
		return found{unproven, "red too: " + strings.Join(red, " "), t.said(failed)}
	}
	if green := t.of(passed, guards); len(green) > 0 {
		return found{survived, "green: " + strings.Join(green, " "), t.said(passed)}
	}
	return found{verdict: killed}
}

// healthy says what is wrong with the tests where no mistake is.
func (t *tested) healthy(pkg string, names []string) error {
	if !t.compiled {
		return fmt.Errorf("%s does not compile without any mistake:\n%s", pkg, t.compiler)
	}
	if t.outcome == failed {
		return fmt.Errorf("%s is red without any mistake: %s\n%s", pkg, strings.Join(t.of(failed, names), " "), t.said(failed))
	}
	if missing := t.missing(names); len(missing) > 0 {
		return fmt.Errorf("%s has no such tests: %s", pkg, strings.Join(missing, " "))
	}
	return nil
}

// of returns those of the tests that have the outcome.
func (t *tested) of(outcome string, names []string) []string {
	var those []string
	for _, name := range names {
		if t.tests[name] == outcome {
			those = append(those, name)
		}
	}
	return those
}

// missing returns those of the tests that neither passed nor failed.
func (t *tested) missing(lists ...[]string) []string {
	var those []string
	for _, names := range lists {
		for _, name := range names {
			if outcome := t.tests[name]; outcome != passed && outcome != failed {
				those = append(those, name)
			}
		}
	}
	return those
}
