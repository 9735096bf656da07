package contract

import (
	"errors"
	"fmt"

	"github.com/onejob/onejob/internal/yamlfile"
)

// Problem is what is wrong in one place of a contract: what, and the remedy.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line"` // 0: not known
	Text string `json:"problem"`
}

func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Text)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text)
}

// Problems are all that was found, in the order of the file.
type Problems []Problem

func (p Problems) Error() string {
	switch len(p) {
	case 0:
		return "no problem"
	case 1:
		return p[0].String()
	}
	return fmt.Sprintf("%s (and %d more)", p[0], len(p)-1)
}

// problemOf returns the problem that err is about.
func problemOf(err error) (Problem, bool) {
	p, ok := errors.AsType[*yamlfile.Problem](err)
	if !ok {
		return Problem{}, false
	}
	return Problem{File: p.File, Line: p.Line, Text: oneLine(p.Err.Error())}, true
}
