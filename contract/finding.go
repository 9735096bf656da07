package contract

import (
	"fmt"
	"strings"
)

// Code says what a finding is about, in one word that programs compare.
type Code string

// The codes of findings about a reply.
const (
	CodeEnd             Code = "end"              // the answer ended in a way that the contract does not accept
	CodeTooLarge        Code = "too_large"        // more bytes or levels than a reply may have
	CodeNotJSON         Code = "not_json"         // there is no JSON value, or it ends in the middle
	CodeFenced          Code = "fenced"           // the JSON stands in a Markdown fence
	CodeSurrounded      Code = "surrounded"       // something stands before or behind the JSON
	CodeDuplicateMember Code = "duplicate_member" // a member stands twice in an object
	CodeNumber          Code = "number"           // a number that no schema or rule can judge
	CodeUnknownKey      Code = "unknown_key"      // a top-level member that the output schema does not name
	CodeSchema          Code = "schema"           // the value breaks the schema
	CodeRule            Code = "rule"             // a rule does not hold
	CodeRuleError       Code = "rule_error"       // a rule cannot be evaluated, so it does not hold
	CodeFact            Code = "fact"             // an expected fact does not hold
)

// The codes of findings about an input and its prompt.
const (
	CodeInput        Code = "input"         // the input is no JSON value, or breaks the input schema
	CodeTemplate     Code = "template"      // the prompt names what the input does not have, or cannot show it
	CodeSpecialToken Code = "special_token" // the prompt holds a special token of the model
	CodeContext      Code = "context"       // the prompt and the answer's allowance exceed the model's context
	CodeRoundTrip    Code = "round_trip"    // the tokenizer does not give back the text it was given
	CodeCount        Code = "count"         // the tokens cannot be counted
)

// Finding is one thing that is wrong.
type Finding struct {
	Code   Code   `json:"code"`
	Path   string `json:"path,omitempty"` // JSON Pointer into what was checked
	Name   string `json:"name,omitempty"` // of the rule, the special token, the unknown key or the end
	Detail string `json:"detail"`         // one line for people
}

// Error makes a finding the error of a check that finds one thing at most.
func (f Finding) Error() string {
	var line strings.Builder
	line.WriteString(string(f.Code))
	if f.Name != "" {
		fmt.Fprintf(&line, " %s", f.Name)
	}
	if f.Path != "" {
		fmt.Fprintf(&line, " at %s", f.Path)
	}
	return line.String() + ": " + f.Detail
}

// Verdict is what the checks say of one reply.
type Verdict struct {
	Findings []Finding `json:"findings"` // at most 50, the first ones of each check
}

// String lists the findings in one line.
func (v Verdict) String() string {
	var lines []string
	for _, f := range v.Findings {
		lines = append(lines, f.Error())
	}
	return strings.Join(lines, "; ")
}

// Error makes a verdict that has not passed the error of a check.
func (v Verdict) Error() string { return v.String() }

// Passed says that nothing is wrong.
func (v Verdict) Passed() bool { return len(v.Findings) == 0 }

// mostFindings bounds a verdict.
const mostFindings = 50

func (v *Verdict) add(findings ...Finding) {
	for _, f := range findings {
		if len(v.Findings) < mostFindings {
			f.Detail = oneLine(f.Detail)
			f.Path = oneLine(f.Path)
			f.Name = oneLine(f.Name)
			v.Findings = append(v.Findings, f)
		}
	}
}
