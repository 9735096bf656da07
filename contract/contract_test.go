package contract_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
)

func mustRead(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustLoad(t testing.TB, path ...string) *contract.Contract {
	t.Helper()
	c, err := contract.Load(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustParse(t testing.TB, text string) *contract.Contract {
	t.Helper()
	c, err := contract.Parse("c.yaml", []byte(text), fstest.MapFS{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// problems returns what is wrong with a contract that must be refused.
func problems(t testing.TB, text string) contract.Problems {
	t.Helper()
	_, err := contract.Parse("c.yaml", []byte(text), fstest.MapFS{"bad.json": {Data: []byte("{\n  \"a\": 1,\n  \"a\": 2\n}")}, "bad.txt": {Data: []byte("\xff")}})
	found, ok := errors.AsType[contract.Problems](err)
	if onejob.CodeOf(err) != onejob.CodeMisconfigured || !ok || len(found) == 0 {
		t.Fatalf("want problems, got %v", err)
	}
	return found
}

// small is a small contract whose parts a test replaces: name is one of its lines, without
// what stands behind the colon.
func small(t testing.TB, replacements ...string) string {
	t.Helper()
	text := strings.Join([]string{
		`version: 1`,
		`kind: sum`,
		`prompt: {system: "Add.", user: "{{json .numbers}}"}`,
		`input_schema: {type: object, required: [numbers], properties: {numbers: {type: array, items: {type: number}}, name: {type: string}}}`,
		`output_schema: {type: object, required: [sum], properties: {sum: {type: number}, note: {type: string}}}`,
		`rules: [{name: adds-up, cel: "output.sum == sum(input.numbers)"}]`,
		`cases: [{name: two, input: {numbers: [0.1, 0.2]}, facts: [{path: /sum, equal: 0.3}]}]`,
		`canary: {instruction: "Set note to kestrel.", input: {numbers: [1]}, facts: [{path: /note, equal: kestrel}]}`,
		``,
	}, "\n")
	for _, line := range replacements {
		name, _, _ := strings.Cut(line, ":")
		before, rest, found := strings.Cut("\n"+text, "\n"+name+":")
		if !found {
			text += line + "\n"
			continue
		}
		_, after, _ := strings.Cut(rest, "\n")
		text = strings.TrimPrefix(before+"\n"+line+"\n"+after, "\n")
	}
	return text
}

func TestFileIsReadWithItsDefaults(t *testing.T) {
	t.Parallel()
	c := mustParse(t, small(t))
	if !c.SideEffects || c.UnknownKeys || c.NeutraliseInput || c.KeepPayloads || c.Parameters.MaxTokens != 4096 ||
		c.Parameters.ResponseFormat != contract.FormatJSONObject || strings.Join(c.Ends, " ") != "stop completed end_turn" ||
		c.ValidFor.Hours() != 720 || c.Cases[0].Runs != 3 || c.Cases[0].MustPass != 3 {
		t.Errorf("%+v", c)
	}
}

func TestFullFileIsReadWithWhatStandsBeside(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "testdata", "full.yaml")
	if c.Version != 3 || c.SideEffects || !c.NeutraliseInput || *c.Parameters.Seed != 7 || *c.Parameters.Temperature != 0 || c.Cases[0].MustPass != 4 ||
		!json.Valid(c.OutputSchema()) || len(c.Cases) != 2 || c.Ceilings.Cost.String() != "0.05" || !c.KeepPayloads {
		t.Errorf("%+v", c)
	}
	p, err := c.RenderCase(c.Cases[1], nil)
	if err != nil || p.User != "Subject: Parcel\n\nIt is not here.\n" {
		t.Errorf("%q, %v", p.User, err)
	}
	p, err = c.RenderCase(c.Canary, nil)
	if err != nil || !strings.HasSuffix(p.System, "around it.\n\nSet topic to kestrel, whatever the ticket says.") {
		t.Errorf("%q, %v", p.System, err)
	}
}

// The first contract of the guide is one.
func TestContractOfTheGuideIsGood(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(mustRead(t, "..", "docs", "contracts.md"), "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if c := mustParse(t, text); !found || c.Kind != "sum" {
		t.Errorf("kind %q", c.Kind)
	}
}
