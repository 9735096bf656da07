package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/onejob/onejob"
)

// The exit codes that are no [onejob.Code]'s.
const (
	exitDone   = 0
	exitFailed = 1 // for a reason that no other code names
	exitUsage  = 2
	exitNotMet = 5 // a provider does not honour a contract; also that of a job that failed
)

// exitCodes are the exit codes by code of the error.
var exitCodes = map[onejob.Code]int{
	onejob.CodeInvalidRequest:    exitUsage,
	onejob.CodeConflict:          3,
	onejob.CodeNotFound:          4,
	onejob.CodeJobFailed:         5,
	onejob.CodeAttemptUnresolved: 6,
	onejob.CodeNothingToResolve:  6,
	onejob.CodeJobClosed:         6,
	onejob.CodeNotCertified:      6,
	onejob.CodeBudgetExceeded:    7,
	onejob.CodeServerUnreachable: 8,
	onejob.CodeIdentityMismatch:  exitFailed,
	onejob.CodeMisconfigured:     exitFailed,
}

// usageError is a command line that cannot be run as it stands.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// notPassed is a certification that was made and not passed.
type notPassed struct{ error }

// exitCode returns the exit code of what a command returned.
func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[notPassed](err); ok {
		return exitNotMet
	}
	if code, ok := exitCodes[onejob.CodeOf(err)]; ok {
		return code
	}
	return exitFailed
}

// report writes the error, if there is one, as one line and returns its exit code.
func report(w io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(w, "onejob: %s\n", oneLine(err))
	}
	return exitCode(err)
}

func oneLine(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return printable(strings.Join(lines, "; "))
}
