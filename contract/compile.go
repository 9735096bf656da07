package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/internal/yamlfile"
)

// compile makes of what was read what can be run, and tries it on the cases.
func (r *reader) compile() {
	var err error
	r.system, err = parseTemplate("system", r.systemText)
	r.keep(err)
	r.user, err = parseTemplate("user", r.userText)
	r.keep(err)
	r.input, err = compileSchema(r.inputSchema)
	r.keep(err)
	r.output, err = compileSchema(r.outputSchema)
	r.keep(err)
	if len(r.problems) > 0 {
		return
	}
	r.keep(r.checkKeys())
	r.checkRules()
	for _, c := range r.Cases {
		r.checkCase(c)
	}
	r.checkCase(r.Canary)
	r.keep(r.checkCanary())
}

// checkKeys looks at what the output schema and unknown_keys say together.
func (r *reader) checkKeys() error {
	named := r.output.keys()
	if root, ok := r.output.root.(map[string]any); !ok || root["type"] != nil && root["type"] != "object" {
		return nil
	}
	switch {
	case r.UnknownKeys && named.closed:
		return r.output.errorf("/additionalProperties", "the output schema refuses the members that unknown_keys allows: say the same in both")
	case !r.UnknownKeys && named.open:
		return r.output.errorf("/additionalProperties", "the output schema allows the members that unknown_keys refuses: say unknown_keys: allow, or leave additionalProperties out")
	case !r.UnknownKeys && len(named.names)+len(named.patterns) == 0:
		return r.output.errorf("", "the output schema names no members, and unknown_keys refuses those that it does not name: add properties")
	}
	return nil
}

func (r *reader) places() map[string]place {
	return map[string]place{"input": {r.input, ""}, "output": {r.output, ""}}
}

func (r *reader) checkRules() {
	for _, rule := range r.Rules {
		r.keep(rule.program.checkPlaces(r.places()))
	}
}

// checkCase looks whether the case's input is one, the prompt renders for it, and the
// facts are about what a reply has.
func (r *reader) checkCase(c Case) {
	if _, err := r.RenderCase(c, nil); err != nil {
		r.keep(caseError(c, err))
	}
	for i, f := range c.Facts {
		if err := r.checkFact(f); err != nil {
			r.keep(factError(c, i, err))
		}
	}
}

func caseError(c Case, err error) error {
	f, ok := errors.AsType[Finding](err)
	if !ok {
		return c.errorf("case %s: %s", yamlfile.Quoted(c.Name), oneLine(err.Error()))
	}
	switch f.Code {
	case CodeInput:
		return c.errorf("the input of case %s breaks the input schema at %s: %s: correct the one or the other", yamlfile.Quoted(c.Name), orRoot(f.Path), f.Detail)
	case CodeTemplate:
		return c.errorf("the prompt cannot be rendered for case %s: %s", yamlfile.Quoted(c.Name), f.Detail)
	}
	return c.errorf("case %s: %s", yamlfile.Quoted(c.Name), f.Detail)
}

func factError(c Case, i int, err error) error {
	if _, placed := problemOf(err); placed {
		return err
	}
	return c.errorf("fact %d of case %s %w", i+1, yamlfile.Quoted(c.Name), err)
}

func (r *reader) checkFact(f Fact) error {
	where, err := place{r.output, ""}.at(f.Path)
	if err != nil {
		return err
	}
	if f.program != nil {
		scope := r.places()
		scope["value"] = where
		return f.program.checkPlaces(scope)
	}
	expected := f.OneOf
	if f.Equal != nil {
		expected = append(expected, f.Equal)
	}
	for _, value := range expected {
		if err := where.accepts(value); err != nil {
			return fmt.Errorf("expects %s at %s, which the output schema refuses: %w", onejob.Shorten(string(value), 60), orRoot(f.Path), err)
		}
	}
	return nil
}

// accepts returns an error if the schema of the place refuses the value.
func (p place) accepts(text json.RawMessage) error {
	if p.schema == nil {
		return nil
	}
	part, ok := p.parts[p.pointer]
	if !ok {
		var err error
		if part, err = p.compiler.Compile(schemaURL + "#" + fragment(p.pointer)); err != nil {
			return err
		}
		p.parts[p.pointer] = part
	}
	value, f := parseValue(text, mostFileBytes)
	if f != nil {
		return f
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](part.Validate(value)); ok {
		return errors.New(oneLine(leaves(invalid, nil)[0].ErrorKind.LocalizedString(english)))
	}
	return nil
}

// checkCanary refuses a canary that a reply could pass without its instruction: all that it
// expects stands in the prompt anyway.
func (r *reader) checkCanary() error {
	p, err := r.Render(r.Canary.Input, nil)
	if err != nil {
		return nil // it was told already
	}
	for _, f := range r.Canary.Facts {
		var word string
		if json.Unmarshal(f.Equal, &word) != nil || word == "" || !strings.Contains(p.System+"\n"+p.User, word) {
			return nil
		}
	}
	return r.Canary.errorf("all that the canary expects stands in the prompt without the instruction too, so a model that ignores the system prompt could pass: expect a word that only the instruction has")
}
