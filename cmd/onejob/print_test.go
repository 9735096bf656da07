package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/onejob/onejob"
)

var neverEnding = context.Background()

func TestEveryCodeHasAnExitCode(t *testing.T) {
	t.Parallel()
	want := map[error]int{
		onejob.ErrInvalidRequest: 2, onejob.ErrConflict: 3, onejob.ErrNotFound: 4, onejob.ErrJobFailed: 5,
		onejob.ErrAttemptUnresolved: 6, onejob.ErrNothingToResolve: 6, onejob.ErrJobClosed: 6, onejob.ErrNotCertified: 6,
		onejob.ErrBudgetExceeded: 7, onejob.ErrServerUnreachable: 8, onejob.ErrIdentityMismatch: 1, onejob.ErrMisconfigured: 1,
		errors.New("anything else"): 1, usagef("no such flag"): 2, notPassed{errors.New("refused")}: 5, context.Canceled: 1, nil: 0,
	}
	for err, code := range want {
		if got := exitCode(err); got != code {
			t.Errorf("%v is exit code %d, want %d", err, got, code)
		}
	}
	if len(exitCodes) != 12 {
		t.Errorf("the table is %v, want every code", exitCodes)
	}
}

func TestErrorIsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	report(&out, errors.Join(errors.New("first\n  second"), errors.New("third\x1b[31m")))
	if got := out.String(); got != "onejob: first; second; third\uFFFD[31m\n" {
		t.Errorf("%q", got)
	}
}

func TestResultIsPrintedAsItIsStored(t *testing.T) {
	t.Parallel()
	for _, result := range []string{`{"a":  1.50, "big": 12345678901234567890, "text": "\u00fc<b>&"}`, "[\n  1\n]", "null", `"\u0000"`} {
		object, err := detail{View: onejob.View{JobID: "1"}, result: json.RawMessage(result)}.object()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(object, []byte(`,"result":`+result+"}\n")) || !json.Valid(object) {
			t.Errorf("printed %s", object)
		}
	}
	object, err := detail{}.object()
	if err != nil || !bytes.HasSuffix(object, []byte(`,"result":null}`+"\n")) {
		t.Errorf("a job without a result is printed %s (%v)", object, err)
	}
}

func TestColumnsAreAsWideAsTheScreenShows(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeTable(&out, []string{"上海", "x"}, []string{"abcd", ""}, []string{"مرحبا", "y\tz\x1b"})
	if got := out.String(); got != "上海   x\nabcd   -\nمرحبا  y z\uFFFD\n" {
		t.Errorf("%q", got)
	}
}

func TestShellReadsExportsAsTheyWere(t *testing.T) {
	t.Parallel()
	values := []string{"", "plain", "postgres://u@127.0.0.1:1/db?sslmode=disable", "a&b c", `it's "quoted" $HOME`, "`x`;#"}
	var variables []string
	for i, value := range values {
		variables = append(variables, fmt.Sprintf("V%d=%s", i, value))
	}
	var script bytes.Buffer
	exports(&script, variables)
	script.WriteString(`for i in 0 1 2 3 4 5; do eval "printf '%s\n' \"\$V$i\""; done`)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script.String()).Output()
	if want := strings.Join(values, "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("the shell has\n%s, want\n%s (%v)", out, want, err)
	}
	if !strings.Contains(script.String(), "export V2="+values[2]+"\n") {
		t.Error("a value that needs no quotes has some")
	}
}
