package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/onejob/onejob/contract"
)

func TestEveryRefusalNamesLineValueAndRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, text string
		line      int
		words     []string
	}{
		{"unknown field", small(t, "kinds: a"), 9, []string{`unknown field "kinds" in the file`, "did you mean kind?"}},
		{"no version", strings.Replace(small(t), "version: 1\n", "", 1), 1, []string{"the file has no version", "add it"}},
		{"version of text", small(t, "version: one"), 1, []string{`version is the text "one"`, "from 1"}},
		{"kind with a blank", small(t, "kind: a b"), 2, []string{`"a b"`, "without white space"}},
		{"side effects by another word", small(t, "side_effects: some"), 9, []string{`"some"`, "external or none"}},
		{"not yaml", "version: [}", 1, []string{"not yaml"}},
		{"empty", "", 1, []string{"empty", "version, kind"}},
		{"no system prompt", small(t, "prompt: {user: a}"), 3, []string{"none of system, system_file"}},
		{"user prompt twice", small(t, "prompt: {system: a, user: b, user_file: c.txt}"), 3, []string{`"c.txt"`, "not beside the contract"}},
		{"file that is not beside", small(t, "prompt: {system: a, user_file: ../c.txt}"), 3, []string{`"../c.txt"`, "folder or below"}},
		{"file that is absolute", small(t, "prompt: {system: a, user_file: /etc/passwd}"), 3, []string{"/etc/passwd", "folder or below"}},
		{"file that is not text", small(t, "prompt: {system: a, user_file: bad.txt}"), 3, []string{"not text", "UTF-8"}},
		{"empty prompt", small(t, `prompt: {system: " ", user: a}`), 3, []string{"empty"}},
		{"template that does not parse", small(t, "prompt:\n  system: a\n  user: |\n    a\n    {{.name"), 8, []string{"user prompt is no template", "unclosed action"}},
		{"variable that cases lack", small(t, `prompt: {system: a, user: "{{.nam}}"}`), 7, []string{`case "two"`, `no entry for key "nam"`}},
		{"nested variable that cases lack", small(t, `prompt: {system: a, user: "{{.name.first}}"}`), 7, []string{`case "two"`, `no entry for key "name"`}},
		{"variable shown as Go prints it", small(t, `prompt: {system: a, user: "{{.numbers}}"}`), 7, []string{"the value is a list", "json"}},
		{"function that is not allowed", small(t, `prompt: {system: a, user: "{{printf \"%v\" .}}"}`), 3, []string{"printf", "use one of and, or"}},
		{"call", small(t, `prompt: {system: a, user: "{{call .name}}"}`), 3, []string{"call"}},
		{"template of its own", small(t, `prompt: {system: a, user: '{{define "x"}}b{{end}}c'}`), 3, []string{"defines a template"}},
		{"marker of a shell", small(t, `prompt: {system: a, user: "${name}"}`), 3, []string{"${name}", "{{.name}}"}},
		{"marker of Python", small(t, `prompt: {system: a, user: "Sum {numbers}"}`), 3, []string{"{numbers}", "{{.name}}"}},
		{"marker of Jinja", small(t, `prompt: {system: a, user: "{% if a %}"}`), 3, []string{"{%"}},
		{"marker torn apart", small(t, `prompt: {system: a, user: "{ {.name}}"}`), 3, []string{"{ {."}},
		{"special token in the prompt", small(t, `prompt: {system: "<|im_start|>", user: a}`), 3, []string{"<|im_start|>", "roles"}},
		{"no input schema", strings.Replace(small(t), "input_schema:", "input_schem:", 1), 4, []string{"did you mean input_schema?"}},
		{"schema of another dialect", small(t, "input_schema: {$schema: 'http://json-schema.org/draft-07/schema#'}"), 4, []string{"2020-12"}},
		{"schema that loads", small(t, "output_schema: {$ref: 'https://example.com/a.json'}"), 5, []string{"https://example.com/a.json", "#/$defs/name"}},
		{"schema that loads a file", small(t, "output_schema: {$ref: 'file:///etc/passwd'}"), 5, []string{"file:///etc/passwd", "nothing is loaded"}},
		{"schema that refers to nothing", small(t, "output_schema: {$ref: '#/$defs/a'}"), 5, []string{"/$defs/a", "not there"}},
		{"schema that refers to itself", small(t, "output_schema: {properties: {a: {$ref: '#'}}}"), 5, []string{"refers to itself", "levels"}},
		{"schema of a wrong type", small(t, "output_schema: {properties: {a: {type: numbr}}}"), 5, []string{"/properties/a/type"}},
		{"schema with a pattern that is none", small(t, "output_schema: {properties: {a: {pattern: '('}}}"), 5, []string{"regex"}},
		{"schema that is a text", small(t, "output_schema: a.json"), 5, []string{"neither a mapping"}},
		{"schema file with a member twice", strings.Replace(small(t), "input_schema:", "input_schema_file: bad.json #", 1), 3, []string{"not JSON", "duplicate"}},
		{"schema that grows without end", small(t, "output_schema: "+grown(14)), 5, []string{"more than 10000", "smaller"}},
		{"output without members", small(t, "output_schema: {type: object}"), 5, []string{"names no members"}},
		{"output that allows what is refused", small(t, "output_schema: {type: object, additionalProperties: true, properties: {sum: {}, note: {}}}"), 5, []string{"unknown_keys: allow"}},
		{"output that refuses what is allowed", small(t, "output_schema: {type: object, additionalProperties: false, properties: {sum: {}, note: {}}}", "unknown_keys: allow"), 5, []string{"same in both"}},
		{"rule that does not parse", small(t, `rules: [{name: a, cel: "output.sum =="}]`), 6, []string{"no CEL at column"}},
		{"rule of a wrong type", small(t, `rules: [{name: a, cel: "1 + 'a' == 2"}]`), 6, []string{"no matching overload"}},
		{"rule that names nothing", small(t, `rules: [{name: a, cel: "outptu.sum == 1"}]`), 6, []string{"undeclared reference to 'outptu'"}},
		{"rule that gives a number", small(t, `rules: [{name: a, cel: "size(input.numbers)"}]`), 6, []string{"gives int", "true or false"}},
		{"rule about a member that is not there", small(t, `rules: [{name: a, cel: "output.outcome == 1"}]`), 6, []string{`"outcome"`, "use one of note, sum"}},
		{"rule about items that have none", small(t, `input_schema: {type: object, properties: {numbers: {items: {type: object, properties: {value: {}}}}}}`,
			`rules: [{name: a, cel: "input.numbers.all(n, n.valu > 1)"}]`), 6, []string{`"valu"`, "did you mean value?"}},
		{"rule twice", small(t, `rules: [{name: a, cel: "true"}, {name: a, cel: "true"}]`), 6, []string{`"a" of another rule`}},
		{"rule without a name", small(t, `rules: [{cel: "true"}]`), 6, []string{"rules[0] has no name"}},
		{"temperature out of bounds", small(t, `parameters: {temperature: 3}`), 9, []string{"the number 3", "from 0 to 2"}},
		{"no tokens", small(t, `parameters: {max_tokens: 0}`), 9, []string{"the number 0", "from 1"}},
		{"seed with a fraction", small(t, `parameters: {seed: 1.5}`), 9, []string{"1.5", "whole number"}},
		{"format by another word", small(t, `parameters: {response_format: json}`), 9, []string{`"json"`, "json_object"}},
		{"no ends", small(t, `ends: []`), 9, []string{"ends is empty", "[stop]"}},
		{"end twice", small(t, `ends: [stop, stop]`), 9, []string{`"stop"`, "name it once"}},
		{"no cases", small(t, `cases: []`), 7, []string{"cases is empty"}},
		{"case twice", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{cel: "true"}]}, {name: a, input: {numbers: []}, facts: [{cel: "true"}]}]`), 7, []string{`"a" of another case`}},
		{"case without input", small(t, `cases: [{name: a, facts: [{cel: "true"}]}]`), 7, []string{"none of input, input_file"}},
		{"case without facts", small(t, `cases: [{name: a, input: {numbers: []}, facts: []}]`), 7, []string{"facts is empty"}},
		{"case that breaks the input schema", small(t, `cases: [{name: a, input: {numbers: 1}, facts: [{cel: "true"}]}]`), 7, []string{"/numbers", "want array"}},
		{"more passes than runs", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{cel: "true"}], runs: 2, must_pass: 3}]`), 7, []string{"3 of 2 runs"}},
		{"input in another spelling", small(t, `cases: [{name: a, input: {numbers: [0x10]}, facts: [{cel: "true"}]}]`), 7, []string{"0x10", "as JSON does"}},
		{"input with a special token", small(t, `prompt: {system: a, user: "{{.name}}"}`, `cases: [{name: a, input: {numbers: [], name: "<|endoftext|>"}, facts: [{cel: "true"}]}]`), 7, []string{"<|endoftext|>", "neutralise"}},
		{"fact of two kinds", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{path: /sum, equal: 0, one_of: [0]}]}]`), 7, []string{"more than one of equal, one_of, cel"}},
		{"fact of none", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{path: /sum}]}]`), 7, []string{"none of equal, one_of, cel"}},
		{"fact without a path", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{equal: 1}]}]`), 7, []string{"has no path"}},
		{"path that is no pointer", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{path: sum, equal: 1}]}]`), 7, []string{`"sum"`, "JSON Pointer"}},
		{"fact about a member that is not there", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{path: /smu, equal: 1}]}]`), 7, []string{`"smu"`, "did you mean sum?"}},
		{"fact that the schema refuses", small(t, `cases: [{name: a, input: {numbers: []}, facts: [{path: /sum, equal: "1"}]}]`), 7, []string{"/sum", "output schema refuses", "want number"}},
		{"no canary", strings.Replace(small(t), "canary:", "canry:", 1), 8, []string{"did you mean canary?"}},
		{"canary without instruction", small(t, `canary: {input: {numbers: []}, facts: [{path: /note, equal: kestrel}]}`), 8, []string{"no instruction"}},
		{"canary that everybody passes", small(t, `prompt: {system: Add to kestrel., user: a}`), 8, []string{"without the instruction", "only the instruction"}},
		{"cost without currency", small(t, `ceilings: {cost: "1"}`), 9, []string{"cost and currency", "both"}},
		{"cost in exponents", small(t, `ceilings: {cost: 1e-3, currency: USD}`), 9, []string{"1e-3", "exact decimal"}},
		{"certificate for a minute", small(t, `certificate: {valid_for: 1m}`), 9, []string{"1m", "1h"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			found := problems(t, c.text)
			if !slices.ContainsFunc(found, func(p contract.Problem) bool { return about(p, c.line, c.words) }) {
				t.Errorf("no problem in line %d says %q: %v", c.line, c.words, []contract.Problem(found))
			}
			for _, p := range found {
				if strings.ContainsAny(p.String(), "\n\r") || len(p.Text) > 500 || p.Line == 0 {
					t.Errorf("not one short line with its place: %q", p)
				}
			}
		})
	}
}

func about(p contract.Problem, line int, words []string) bool {
	return (line == 0 || p.Line == line) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(p.Text, w) })
}

// grown is a schema of a few lines that stands for 2^levels schemas.
func grown(levels int) string {
	var defs strings.Builder
	for i := range levels {
		next := string(rune('a' + i + 1))
		defs.WriteString(string(rune('a'+i)) + ": {properties: {x: {$ref: '#/$defs/" + next + "'}, y: {$ref: '#/$defs/" + next + "'}}}, ")
	}
	return "{properties: {sum: {$ref: '#/$defs/a'}}, $defs: {" + defs.String() + string(rune('a'+levels)) + ": {}}}"
}

func TestEveryProblemIsTold(t *testing.T) {
	t.Parallel()
	found := problems(t, small(t, "version: 0", "kind: a b", `ends: []`, "colour: red"))
	if len(found) != 4 {
		t.Errorf("%v", []contract.Problem(found))
	}
}

func TestProblemOfAFileBesideNamesThatFile(t *testing.T) {
	t.Parallel()
	found := problems(t, strings.Replace(small(t), "input_schema:", "input_schema_file: bad.json #", 1))
	if found[0].File != "bad.json" || found[0].Line != 3 {
		t.Errorf("%v", found)
	}
}

func TestProblemInATextOfManyLinesNamesItsLine(t *testing.T) {
	t.Parallel()
	found := problems(t, small(t, "rules:\n  - name: a\n    cel: |\n      output.sum > 1.0 &&\n      output.smu > 1.0"))
	if !about(found[0], 10, []string{`"smu"`}) {
		t.Errorf("%v", found)
	}
	found = problems(t, small(t, "prompt:\n  system: a\n  user: |\n    a\n    b {{printf .}}"))
	if !about(found[0], 7, []string{"printf"}) {
		t.Errorf("%v", found)
	}
}
