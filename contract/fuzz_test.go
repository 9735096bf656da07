package contract_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
)

// longest is what one check may take, on a busy machine and instrumented.
const longest = 20 * time.Second

func FuzzParse(f *testing.F) {
	f.Add(small(f))
	f.Add(mustRead(f, "testdata", "full.yaml"))
	f.Add(mustRead(f, "..", "examples", "contracts", "address.yaml"))
	f.Add(small(f, "output_schema: "+grown(14)))
	f.Add(small(f, `rules: [{name: a, cel: "[1].all(a, output.x[a].y)"}]`))
	f.Add(small(f, `prompt: {system: "{{range $i, $x := .numbers}}{{$i}}{{break}}{{end}}", user: "{{(index .numbers 0)}}"}`))
	f.Add("a: &a [*a]\n---\n")
	f.Add("input_schema: &a {properties: {b: *a}}\nversion: 1")
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		c, err := contract.Parse("c.yaml", []byte(text), fstest.MapFS{"a": {Data: []byte("{}")}})
		if time.Since(began) > longest {
			t.Errorf("it took %v", time.Since(began))
		}
		if err == nil {
			c.CheckReply(c.Cases[0].Input, []byte(`{"sum": 1}`), "stop")
			return
		}
		found, ok := errors.AsType[contract.Problems](err)
		if onejob.CodeOf(err) != onejob.CodeMisconfigured || !ok || len(found) == 0 {
			t.Fatalf("%v", err)
		}
		for _, p := range found {
			if strings.ContainsAny(p.String(), "\n\r") || len(p.Text) > 500 || p.File == "" {
				t.Errorf("not one short line: %q", p)
			}
		}
	})
}

func FuzzReply(f *testing.F) {
	c := mustParse(f, small(f, `output_schema: {type: object, required: [sum], properties: {sum: {type: number}, note: {type: string, pattern: "^[a-z]*$"}, parts: {uniqueItems: true, items: {oneOf: [{type: number}, {$ref: '#/$defs/part'}]}}}, $defs: {part: {type: object, properties: {a: {multipleOf: 0.1}}}}}`))
	for _, reply := range []string{
		`{"sum": 0.3}`, "```json\n{\"sum\": 0.3}\n```", `Yes: {"sum": 0.3}`, `{"sum": 1e99}`, `{"sum": 0.3, "sum": 0.3}`, `{"sum": 0.3, "a~b": 1}`,
		`{"sum": 0.3, "parts": [1, 1.0, {"a": 0.3}, {"a": 1e-300}]}`, `{"note": "\ud800"}`, `[[[`, `"\u0000"`, "\xff", "",
	} {
		f.Add([]byte(reply), "stop")
	}
	f.Fuzz(func(t *testing.T, reply []byte, end string) {
		began := time.Now()
		v := c.CheckCase(c.Cases[0], reply, end)
		if time.Since(began) > longest {
			t.Errorf("it took %v", time.Since(began))
		}
		for _, found := range v.Findings {
			if found.Code == "" || found.Detail == "" || strings.ContainsAny(found.Error(), "\n\r") || len(found.Error()) > 2000 {
				t.Errorf("not one short line with a code: %q", found.Error())
			}
		}
		if v.Passed() && onejob.CheckJSON("the reply", reply, 200) != nil {
			t.Errorf("%q passes", reply)
		}
	})
}

func FuzzInput(f *testing.F) {
	c := prompting(f, "{{if has . \"a\"}}{{.a}}{{end}}{{range .list}}{{json .}}{{end}}", "special_tokens: neutralise")
	for _, input := range []string{`{"a": "b", "list": []}`, `{"list": {"a": 1}}`, `{"a": "<|endof<|endoftext|>text|>", "list": []}`, `{"<|end|>": 1, "list": [{"<|end|>": "<|end|>"}]}`} {
		f.Add([]byte(input))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		p, err := c.Render(input, nil)
		if found, ok := errors.AsType[contract.Finding](err); err != nil && (!ok || strings.ContainsAny(found.Error(), "\n\r")) {
			t.Errorf("%v", err)
		}
		if strings.Contains(p.User, "<|endoftext|>") {
			t.Errorf("%q has a special token", p.User)
		}
	})
}
