package contract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob/internal/yamlfile"
)

func (r *reader) readRules(e yamlfile.Element) error {
	return r.list(e, mostRules, func(item yamlfile.Element) error {
		var rule Rule
		seen := r.members(item, map[string]member{
			"name": set(&rule.Name, kindName),
			"cel":  r.expression(&rule.CEL, &rule.program, ruleEnvironment),
			"says": set(&rule.Says, yamlfile.Element.Text),
		})
		if slices.ContainsFunc(r.Rules, func(other Rule) bool { return other.Name == rule.Name && rule.Name != "" }) {
			r.keep(item.Errorf("has the name %s of another rule: give it one of its own", yamlfile.Quoted(rule.Name)))
		}
		r.Rules = append(r.Rules, rule)
		return required(item, seen, "name", "cel")
	})
}

// list reads a sequence of at most most items; what is wrong with one does not keep the
// others from being read.
func (r *reader) list(e yamlfile.Element, most int, read func(yamlfile.Element) error) error {
	n := 0
	err := e.List(func(item yamlfile.Element) error {
		if n++; n <= most {
			r.keep(read(item))
		}
		return nil
	})
	if err == nil && n > most {
		return e.Errorf("has %d items: use at most %d", n, most)
	}
	return err
}

// expression is a member that is an expression of CEL.
func (r *reader) expression(text *string, target **program, known environment) member {
	return func(e yamlfile.Element) error {
		source, err := prose(e)
		if err != nil {
			return err
		}
		*text = strings.TrimSpace(source.text)
		*target, err = compileExpression(source, known)
		return err
	}
}

func (r *reader) readParameters(e yamlfile.Element) error {
	r.members(e, map[string]member{
		"temperature":     set(&r.Parameters.Temperature, temperature),
		"max_tokens":      set(&r.Parameters.MaxTokens, whole(1, mostTokens)),
		"seed":            set(&r.Parameters.Seed, seed),
		"response_format": set(&r.Parameters.ResponseFormat, oneOf(FormatText, FormatJSONObject, FormatJSONSchema)),
	})
	return nil
}

func temperature(e yamlfile.Element) (*float64, error) {
	var t float64
	node := e.Resolved()
	if tag := node.ShortTag(); tag != "!!int" && tag != "!!float" || node.Decode(&t) != nil || !(t >= 0 && t <= 2) {
		return nil, e.Errorf("is %s: use a number from 0 to 2", yamlfile.TypeName(node))
	}
	return &t, nil
}

func seed(e yamlfile.Element) (*int64, error) {
	node := e.Resolved()
	s, err := strconv.ParseInt(node.Value, 10, 64)
	if node.ShortTag() != "!!int" || err != nil {
		return nil, e.Errorf("is %s: use a whole number", yamlfile.TypeName(node))
	}
	return &s, nil
}

func (r *reader) readEnds(e yamlfile.Element) error {
	var ends []string
	err := e.List(func(item yamlfile.Element) error {
		end, err := kindName(item)
		if err == nil && slices.Contains(ends, end) {
			return item.Errorf("is %s a second time: name it once", yamlfile.Quoted(end))
		}
		ends = append(ends, end)
		return err
	})
	if err == nil && len(ends) == 0 {
		return e.Errorf("is empty: name the ends that make an answer a reply, [stop] for instance")
	}
	r.Ends = ends
	return err
}

func (r *reader) readCases(e yamlfile.Element) error {
	err := r.list(e, mostCases, func(item yamlfile.Element) error {
		c, err := r.readCase(item, false)
		if slices.ContainsFunc(r.Cases, func(other Case) bool { return other.Name == c.Name && c.Name != "" }) {
			r.keep(item.Errorf("has the name %s of another case: give it one of its own", yamlfile.Quoted(c.Name)))
		}
		r.Cases = append(r.Cases, c)
		return err
	})
	if err == nil && len(r.Cases) == 0 {
		return e.Errorf("is empty: add a real input and what is known of its reply")
	}
	return err
}

func (r *reader) readCanary(e yamlfile.Element) (err error) {
	r.Canary, err = r.readCase(e, true)
	return err
}

// readCase reads a case, or the canary, which has no name and has an instruction.
func (r *reader) readCase(e yamlfile.Element, canary bool) (Case, error) {
	c := Case{Runs: defaultRuns, located: located{file: e.File, line: e.Node.Line}}
	var input *document
	var instruction located
	known := map[string]member{
		"input":      set(&input, documentOf),
		"input_file": set(&input, r.documentBeside),
		"facts":      func(e yamlfile.Element) (err error) { c.Facts, err = r.readFacts(e); return err },
		"runs":       set(&c.Runs, whole(1, mostRuns)),
		"must_pass":  set(&c.MustPass, whole(1, mostRuns)),
	}
	mandatory := []string{"facts"}
	if canary {
		c.Name, known["instruction"] = "canary", set(&instruction, prose)
		mandatory = append(mandatory, "instruction")
	} else {
		known["name"] = set(&c.Name, yamlfile.Element.Text)
		mandatory = append(mandatory, "name")
	}
	seen := r.members(e, known)
	r.keep(required(e, seen, mandatory...))
	c.Instruction = strings.TrimSpace(instruction.text)
	if input != nil {
		c.Input = json.RawMessage(input.text)
	}
	if c.MustPass = cmp.Or(c.MustPass, c.Runs); c.MustPass > c.Runs {
		return c, e.Errorf("must_pass is %d of %d runs: use at most as many", c.MustPass, c.Runs)
	}
	return c, exactlyOne(e, seen, "input", "input_file")
}

func (r *reader) readFacts(e yamlfile.Element) (facts []Fact, err error) {
	err = r.list(e, mostFacts, func(item yamlfile.Element) error {
		var f Fact
		seen := r.members(item, map[string]member{
			"path":   set(&f.Path, pointer),
			"equal":  func(e yamlfile.Element) (err error) { f.Equal, err = jsonOf(e); return err },
			"one_of": func(e yamlfile.Element) (err error) { f.OneOf, err = choices(e); return err },
			"cel":    r.expression(&f.CEL, &f.program, factEnvironment),
		})
		if !seen["cel"] {
			r.keep(required(item, seen, "path"))
		}
		facts = append(facts, f)
		return exactlyOne(item, seen, "equal", "one_of", "cel")
	})
	if err == nil && len(facts) == 0 {
		err = e.Errorf("is empty: say what is known of the reply")
	}
	return facts, err
}

// pointer is a JSON Pointer of RFC 6901.
func pointer(e yamlfile.Element) (string, error) {
	node := e.Resolved()
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" && node.Value == "" {
		return "", nil
	}
	s, err := e.Text()
	if err == nil && (s[0] != '/' || badEscape.MatchString(s)) {
		return "", e.Errorf("is %s: write a JSON Pointer like /lines/0/amount", yamlfile.Quoted(s))
	}
	return s, err
}

func jsonOf(e yamlfile.Element) (json.RawMessage, error) {
	d, err := documentOf(e)
	if err != nil {
		return nil, err
	}
	return d.text, nil
}

func choices(e yamlfile.Element) (values []json.RawMessage, err error) {
	err = e.List(func(item yamlfile.Element) error {
		value, err := jsonOf(item)
		values = append(values, value)
		return err
	})
	if err == nil && len(values) == 0 {
		err = e.Errorf("is empty: name the values that are right")
	}
	return values, err
}

func (r *reader) readCeilings(e yamlfile.Element) error {
	seen := r.members(e, map[string]member{
		"latency":  set(&r.Ceilings.Latency, duration(1e6, longestLatency)),
		"cost":     set(&r.Ceilings.Cost, yamlfile.Element.Decimal),
		"currency": set(&r.Ceilings.Currency, yamlfile.Element.Currency),
	})
	if seen["cost"] != seen["currency"] {
		return e.Errorf("has one of cost and currency: give both or none")
	}
	return nil
}

func (r *reader) readCertificate(e yamlfile.Element) error {
	r.members(e, map[string]member{
		"valid_for":     set(&r.ValidFor, duration(shortestValid, longestValid)),
		"keep_payloads": set(&r.KeepPayloads, yamlfile.Element.Flag),
	})
	return nil
}
