package contract_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob/contract"
)

func mustCompileEditorSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(contract.EditorSchema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("contract.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("contract.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func mustReadYAML(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestEditorSchemaAcceptsWhatTheReaderAccepts(t *testing.T) {
	t.Parallel()
	schema := mustCompileEditorSchema(t)
	mustLoad(t, "testdata", "full.yaml")
	mustParse(t, small(t))
	for name, text := range map[string]string{
		"full":    mustRead(t, "testdata", "full.yaml"),
		"small":   small(t),
		"invoice": mustRead(t, "..", "examples", "contracts", "invoice.yaml"),
		"address": mustRead(t, "..", "examples", "contracts", "address.yaml"),
	} {
		if err := schema.Validate(mustReadYAML(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEditorSchemaRefusesWhatTheReaderRefuses(t *testing.T) {
	t.Parallel()
	schema := mustCompileEditorSchema(t)
	one := func(c string) string { return "cases: [{name: a, input: {numbers: []}, " + c + "}]" }
	for why, text := range map[string]string{
		"typo":                   small(t, "colour: red"),
		"typo in the prompt":     small(t, "prompt: {system: a, user: b, assistant: c}"),
		"typo in a rule":         small(t, `rules: [{name: a, cel: "true", sais: b}]`),
		"typo in the parameters": small(t, "parameters: {top_p: 1}"),
		"typo in a case":         small(t, one(`facts: [{cel: "true"}], run: 1`)),
		"typo in a fact":         small(t, one(`facts: [{path: /sum, equals: 1}]`)),
		"typo in the canary":     small(t, `canary: {name: a, instruction: a, input: {numbers: []}, facts: [{cel: "true"}]}`),
		"typo in the ceilings":   small(t, "ceilings: {price: 1}"),
		"typo in certificate":    small(t, "certificate: {valid: 1h}"),
		"no version":             strings.Replace(small(t), "version: 1\n", "", 1),
		"version 0":              small(t, "version: 0"),
		"kind with a blank":      small(t, "kind: a b"),
		"side effects":           small(t, "side_effects: some"),
		"two user prompts":       small(t, "prompt: {system: a, user: b, user_file: c}"),
		"no user prompt":         small(t, "prompt: {system: a}"),
		"no output schema":       strings.Replace(small(t), "output_schema:", "certificate: {} #", 1),
		"schema that is text":    small(t, "output_schema: a.json"),
		"unknown keys":           small(t, "unknown_keys: some"),
		"special tokens":         small(t, "special_tokens: drop"),
		"rule without cel":       small(t, "rules: [{name: a}]"),
		"temperature":            small(t, "parameters: {temperature: 3}"),
		"max tokens":             small(t, "parameters: {max_tokens: 0}"),
		"seed":                   small(t, "parameters: {seed: 1.5}"),
		"format":                 small(t, "parameters: {response_format: json}"),
		"no ends":                small(t, "ends: []"),
		"ends twice":             small(t, "ends: [a, a]"),
		"no cases":               small(t, "cases: []"),
		"case without facts":     small(t, one(`facts: []`)),
		"case with two inputs":   small(t, one(`input_file: a.json, facts: [{cel: "true"}]`)),
		"no runs":                small(t, one(`facts: [{cel: "true"}], runs: 0`)),
		"fact of two kinds":      small(t, one(`facts: [{path: /sum, equal: 1, cel: "true"}]`)),
		"fact of none":           small(t, one(`facts: [{path: /sum}]`)),
		"fact without path":      small(t, one(`facts: [{equal: 1}]`)),
		"path that is none":      small(t, one(`facts: [{path: sum, equal: 1}]`)),
		"no choices":             small(t, one(`facts: [{path: /sum, one_of: []}]`)),
		"canary without word":    small(t, `canary: {input: {numbers: []}, facts: [{cel: "true"}]}`),
		"cost alone":             small(t, `ceilings: {cost: "1"}`),
		"cost with exponent":     small(t, `ceilings: {cost: "1e3", currency: USD}`),
		"currency":               small(t, `ceilings: {cost: "1", currency: usd}`),
		"validity":               small(t, `certificate: {valid_for: 30 days}`),
	} {
		t.Run(why, func(t *testing.T) {
			if err := schema.Validate(mustReadYAML(t, text)); err == nil {
				t.Error("the schema accepts it")
			}
			problems(t, text)
		})
	}
}

// TestFullContractUsesEveryMember keeps schema and reader together: a member of the schema
// that the reader does not know cannot be in the full file, which it accepts.
func TestFullContractUsesEveryMember(t *testing.T) {
	t.Parallel()
	full := mustRead(t, "testdata", "full.yaml") + small(t)
	for _, name := range propertyNames(mustReadYAML(t, string(contract.EditorSchema))) {
		if !strings.Contains(full, name+":") && name != "input_schema_file" && name != "system_file" {
			t.Errorf("testdata/full.yaml does not use %s", name)
		}
	}
}

// propertyNames collects the members that a schema describes.
func propertyNames(schema any) (names []string) {
	switch s := schema.(type) {
	case []any:
		for _, item := range s {
			names = append(names, propertyNames(item)...)
		}
	case map[string]any:
		for keyword, value := range s {
			if properties, ok := value.(map[string]any); ok && keyword == "properties" {
				for name := range properties {
					names = append(names, name)
				}
			}
			names = append(names, propertyNames(value)...)
		}
	}
	return names
}
