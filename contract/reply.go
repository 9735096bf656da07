package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/internal/yamlfile"
)

// CheckReply judges a reply to an input: the text that the model wrote, without the
// envelope of the vendor's API. End is how the answer ended, in the vendor's own words; "":
// the provider does not say. The reply is what the contract wants if the verdict has passed.
func (c *Contract) CheckReply(input, reply []byte, end string) Verdict {
	v, _ := c.check(input, reply, end)
	return v
}

// CheckCase judges a reply to a case as [Contract.CheckReply] does, and by the case's facts.
func (c *Contract) CheckCase(k Case, reply []byte, end string) Verdict {
	v, known := c.check(k.Input, reply, end)
	if known == nil {
		return v
	}
	for _, f := range k.Facts {
		v.add(f.check(known)...)
	}
	return v
}

// check returns the verdict without facts, and the values for expressions, nil if the reply
// is no JSON.
func (c *Contract) check(input, reply []byte, end string) (v Verdict, known *known) {
	if end != "" && !slices.Contains(c.Ends, end) {
		v.add(Finding{Code: CodeEnd, Name: end, Detail: fmt.Sprintf("the answer ended in another way than %s", strings.Join(c.Ends, ", "))})
	}
	asked, f := parseValue(input, mostInputBytes)
	if f != nil {
		v.add(Finding{Code: CodeInput, Path: f.Path, Detail: fmt.Sprintf("%s: %s", f.Code, f.Detail)})
		return v, nil
	}
	answered, f := parseValue(reply, mostReplyBytes)
	if f != nil {
		v.add(*f)
		return v, nil
	}
	v.add(c.checkStructure(answered)...)
	known = newKnown(asked, answered)
	for _, rule := range c.Rules {
		v.add(rule.check(known)...)
	}
	return v, known
}

// known is what expressions and facts are about.
type known struct {
	output any
	values values
}

func newKnown(input, output any) *known {
	return &known{output, values{"input": celValue(input), "output": celValue(output)}}
}

// checkStructure judges a reply by the output schema.
func (c *Contract) checkStructure(reply any) (findings []Finding) {
	unknown := c.unknownKeys(reply)
	findings = append(findings, unknown...)
	for _, f := range c.output.check(reply) {
		if len(unknown) == 0 || !f.aboutKeys {
			findings = append(findings, f.Finding)
		}
	}
	return findings
}

func (c *Contract) unknownKeys(reply any) (findings []Finding) {
	object, ok := reply.(map[string]any)
	if !ok || c.UnknownKeys {
		return nil
	}
	named := c.output.keys()
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !named.has(name) {
			findings = append(findings, Finding{Code: CodeUnknownKey, Path: "/" + escaped(name), Name: name, Detail: "the output schema does not name it"})
		}
	}
	return findings
}

func (r Rule) check(known *known) []Finding {
	holds, err := r.program.holds(known.values)
	switch {
	case err != nil:
		return []Finding{{Code: CodeRuleError, Name: r.Name, Detail: err.Error()}}
	case !holds && r.Says != "":
		return []Finding{{Code: CodeRule, Name: r.Name, Detail: r.Says}}
	case !holds:
		return []Finding{{Code: CodeRule, Name: r.Name, Detail: "it does not hold: " + r.CEL}}
	}
	return nil
}

func (f Fact) check(known *known) []Finding {
	value, there := pointed(known.output, f.Path)
	if !there {
		return []Finding{{Code: CodeFact, Path: f.Path, Detail: "the reply has nothing there"}}
	}
	if f.program != nil {
		return f.checkExpression(known.values.with("value", value))
	}
	expected := f.OneOf
	if f.Equal != nil {
		expected = []json.RawMessage{f.Equal}
	}
	given := spelled(value)
	if slices.ContainsFunc(expected, func(e json.RawMessage) bool { return same(e, given) }) {
		return nil
	}
	return []Finding{{Code: CodeFact, Path: f.Path, Detail: fmt.Sprintf("expected %s, the reply has %s", choiceOf(expected), onejob.Shorten(string(given), 100))}}
}

func (f Fact) checkExpression(v values) []Finding {
	holds, err := f.program.holds(v)
	switch {
	case err != nil:
		return []Finding{{Code: CodeFact, Path: f.Path, Detail: fmt.Sprintf("%s cannot be evaluated: %s", yamlfile.Quoted(f.CEL), err)}}
	case !holds:
		return []Finding{{Code: CodeFact, Path: f.Path, Detail: "it does not hold: " + f.CEL}}
	}
	return nil
}

func choiceOf(expected []json.RawMessage) string {
	var words []string
	for _, e := range expected {
		words = append(words, onejob.Shorten(string(e), 60))
	}
	return onejob.Shorten(strings.Join(words, " or "), 150)
}
