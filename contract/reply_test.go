package contract_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob/contract"
)

const input = `{"numbers": [0.1, 0.2]}`

func codes(v contract.Verdict) (all []string) {
	for _, f := range v.Findings {
		all = append(all, strings.TrimSuffix(string(f.Code)+" "+f.Path, " "))
	}
	return all
}

func TestReplyIsJudgedAsItCame(t *testing.T) {
	t.Parallel()
	c := mustParse(t, small(t, `output_schema: {type: object, required: [sum], properties: {sum: {type: number}, note: {type: string}, day: {format: date}, parts: {items: {type: object, additionalProperties: false, properties: {a: {}}}}}}`))
	for why, reply := range map[string]struct {
		text, end string
		want      []string
	}{
		"good":                        {`{"sum": 0.3}`, "stop", nil},
		"good, in another spelling":   {" \n{\"sum\":3.0e-1}\r\n", "end_turn", nil},
		"good, of one without ends":   {`{"sum": 0.3}`, "", nil},
		"cut by length, but whole":    {`{"sum": 0.3}`, "length", []string{"end"}},
		"cut by length in the middle": {`{"sum": 0.`, "length", []string{"end", "not_json"}},
		"empty":                       {"", "stop", []string{"not_json"}},
		"blank":                       {" \n", "stop", []string{"not_json"}},
		"prose":                       {"I cannot do that.", "stop", []string{"not_json"}},
		"prose in front":              {`Here it is: {"sum": 0.3}`, "stop", []string{"surrounded"}},
		"prose behind":                {`{"sum": 0.3} Done.`, "stop", []string{"surrounded"}},
		"two objects":                 {`{"sum": 0.3}{"sum": 0.3}`, "stop", []string{"surrounded"}},
		"fence":                       {"```json\n{\"sum\": 0.3}\n```", "stop", []string{"fenced"}},
		"fence without a language":    {"```\n{\"sum\": 0.3}\n```", "stop", []string{"fenced"}},
		"byte order mark":             {"\ufeff{\"sum\": 0.3}", "stop", []string{"surrounded"}},
		"comment":                     {"{\"sum\": 0.3 /* yes */}", "stop", []string{"not_json"}},
		"trailing comma":              {`{"sum": 0.3,}`, "stop", []string{"not_json"}},
		"single quotes":               {`{'sum': 0.3}`, "stop", []string{"not_json"}},
		"NaN":                         {`{"sum": NaN}`, "stop", []string{"not_json"}},
		"not UTF-8":                   {"{\"sum\": 0.3, \"note\": \"\xff\"}", "stop", []string{"not_json"}},
		"member twice":                {`{"sum": 0.3, "sum": 0.3}`, "stop", []string{"duplicate_member /sum"}},
		"member twice, deeper":        {`{"sum": 0.3, "parts": [{"a": {"b": 1, "b": 1}}]}`, "stop", []string{"duplicate_member /parts/0/a/b"}},
		"extra key":                   {`{"sum": 0.3, "confidence": 1}`, "stop", []string{"unknown_key /confidence"}},
		"extra key with a slash":      {`{"sum": 0.3, "a/b": 1}`, "stop", []string{"unknown_key /a~1b"}},
		"extra key below":             {`{"sum": 0.3, "parts": [{"b": 1}]}`, "stop", []string{"schema /parts/0"}},
		"wrong type":                  {`{"sum": "0.3"}`, "stop", []string{"schema /sum", "rule"}},
		"wrong format":                {`{"sum": 0.3, "day": "30 February"}`, "stop", []string{"schema /day"}},
		"missing member":              {`{"note": ""}`, "stop", []string{"schema", "rule_error"}},
		"another kind of value":       {`[0.3]`, "stop", []string{"schema", "rule_error"}},
		"null":                        {`null`, "stop", []string{"schema", "rule_error"}},
		"right form, wrong meaning":   {`{"sum": 0.4}`, "stop", []string{"rule"}},
		"number too precise to judge": {`{"sum": 0.30000000000000001}`, "stop", []string{"rule_error"}},
		"number beyond everything":    {`{"sum": 1e999999999}`, "stop", []string{"number /sum"}},
		"number of a million digits":  {`{"sum": ` + strings.Repeat("1", 1_000_000) + `}`, "stop", []string{"number /sum"}},
		"too deep":                    {strings.Repeat("[", 10_000), "stop", []string{"too_large"}},
		"too large":                   {`"` + strings.Repeat("x", 16<<20) + `"`, "stop", []string{"too_large"}},
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			v := c.CheckReply([]byte(input), []byte(reply.text), reply.end)
			if got := codes(v); !slices.Equal(got, reply.want) || v.Passed() != (len(reply.want) == 0) {
				t.Errorf("%v, want %v: %v", got, reply.want, v.Findings)
			}
			for _, f := range v.Findings {
				if f.Detail == "" || len(f.Error()) > 1000 || strings.ContainsAny(f.Error(), "\n\r") {
					t.Errorf("not one short line: %q", f.Error())
				}
			}
		})
	}
}

func TestUnknownKeysAreThoseThatNoPartOfTheSchemaNames(t *testing.T) {
	t.Parallel()
	schema := `output_schema: {type: object, $ref: '#/$defs/base', allOf: [{properties: {note: {}}}], patternProperties: {'^x-': {}}, $defs: {base: {properties: {sum: {}}}}}`
	c := mustParse(t, small(t, schema))
	if v := c.CheckReply([]byte(input), []byte(`{"sum": 0.3, "note": "", "x-a": 1, "y": 1}`), "stop"); !slices.Equal(codes(v), []string{"unknown_key /y"}) {
		t.Errorf("%v", v.Findings)
	}
	c = mustParse(t, small(t, "unknown_keys: allow"))
	if v := c.CheckReply([]byte(input), []byte(`{"sum": 0.3, "y": 1}`), "stop"); !v.Passed() {
		t.Errorf("%v", v.Findings)
	}
}

func TestFactsHoldForTheirCaseOnly(t *testing.T) {
	t.Parallel()
	c := mustParse(t, small(t, `cases: [{name: two, input: {numbers: [0.1, 0.2]}, facts: [{path: /sum, one_of: [0.30, 5]}, {path: /note, cel: 'value.startsWith("a")'}]}]`))
	for reply, want := range map[string][]string{
		`{"sum": 0.3, "note": "ab"}`:  nil,
		`{"sum": 3e-1, "note": "ab"}`: nil,
		`{"sum": 0.3}`:                {"fact /note"},
		`{"sum": 0.3, "note": "b"}`:   {"fact /note"},
		`{"sum": 0.3, "note": 1}`:     {"schema /note", "fact /note"},
		`{"sum": 6, "note": "a"}`:     {"rule", "fact /sum"},
	} {
		if v := c.CheckCase(c.Cases[0], []byte(reply), "stop"); !slices.Equal(codes(v), want) {
			t.Errorf("%s: %v", reply, v.Findings)
		}
		if v := c.CheckReply(c.Cases[0].Input, []byte(`{"sum": 0.3}`), "stop"); !v.Passed() {
			t.Errorf("facts count without their case: %v", v.Findings)
		}
	}
}

func TestRulesComputeWithDecimalsAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string][]string{
		`sum([0.1, 0.2]) == 0.3`:                                  nil,
		`0.1 + 0.2 == 0.3`:                                        {"rule"},
		`sum([]) == 0.0`:                                          nil,
		`sum([1, 2]) == 3`:                                        nil,
		`product([0.1, 3]) == 0.3`:                                nil,
		`round(2.675, 2) == 2.68`:                                 nil,
		`round(-2.675, 2) == -2.68`:                               nil,
		`round(product([12.33, 8.625, 0.01]), 2) == 1.06`:         nil,
		`sum(["a"]) == 1.0`:                                       {"rule_error"},
		`round(1.0, 99) == 1.0`:                                   {"rule_error"},
		`sum(output.note) == 1.0`:                                 {"rule_error"},
		`output.note`:                                             {"rule_error"},
		`input.numbers.exists(n, n > 0)`:                          nil,
		`has(output.note) || output.sum > 1`:                      {"rule"},
		`output.sum == 0.3 && size(input.numbers) == 2`:           nil,
		`timestamp("2026-01-31T00:00:00Z").getFullYear() == 2026`: nil,
	} {
		c := mustParse(t, small(t, "rules:\n  - name: a\n    cel: |\n      "+expression))
		if v := c.CheckReply([]byte(input), []byte(`{"sum": 0.3}`), "stop"); !slices.Equal(codes(v), want) {
			t.Errorf("%s: %v", expression, v.Findings)
		}
	}
}

func TestNumberThatADoubleWouldChangeFailsRulesAndNotFacts(t *testing.T) {
	t.Parallel()
	c := mustParse(t, small(t, `rules: [{name: a, cel: output.sum == 18446744073709551616.0}]`,
		`cases: [{name: two, input: {numbers: []}, facts: [{path: /sum, equal: 18446744073709551617}]}]`))
	if v := c.CheckCase(c.Cases[0], []byte(`{"sum": 18446744073709551617}`), "stop"); !slices.Equal(codes(v), []string{"rule_error"}) {
		t.Errorf("%v", v.Findings)
	}
	if v := c.CheckCase(c.Cases[0], []byte(`{"sum": 18446744073709551616}`), "stop"); !slices.Contains(codes(v), "fact /sum") {
		t.Errorf("%v", v.Findings)
	}
}

// A reply is a stranger's: whatever it holds, judging it ends.
func TestRulesAreCutOffWhenTheyCostTooMuch(t *testing.T) {
	t.Parallel()
	numbers := "[" + strings.TrimSuffix(strings.Repeat("1,", 9000), ",") + "]"
	for _, expression := range []string{
		`input.numbers.all(a, input.numbers.all(b, input.numbers.all(c, a + b + c > 0.0)))`,
		`input.numbers.all(a, sum(input.numbers) > a)`,
		`input.numbers.all(a, input.numbers == input.numbers)`,
		`input.numbers.all(a, a in input.numbers.map(x, x + 0.0))`,
	} {
		c := mustParse(t, small(t, `rules: [{name: a, cel: "`+expression+`"}]`))
		began := time.Now()
		v := c.CheckReply([]byte(`{"numbers": `+numbers+`}`), []byte(`{"sum": 0.3}`), "stop")
		if !slices.Equal(codes(v), []string{"rule_error"}) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: %v after %v", expression, v.Findings, time.Since(began))
		}
	}
}

func TestVerdictIsBounded(t *testing.T) {
	t.Parallel()
	c := mustParse(t, small(t))
	var members []string
	for i := range 1000 {
		members = append(members, `"`+strings.Repeat("k", i+1)+`": 1`)
	}
	if v := c.CheckReply([]byte(input), []byte("{"+strings.Join(members, ",")+"}"), "stop"); len(v.Findings) != 50 {
		t.Errorf("%d findings", len(v.Findings))
	}
}

func TestInputThatIsNoneIsTold(t *testing.T) {
	t.Parallel()
	c := mustParse(t, small(t))
	if v := c.CheckReply([]byte(`{`), []byte(`{"sum": 1}`), "stop"); !slices.Equal(codes(v), []string{"input"}) {
		t.Errorf("%v", v.Findings)
	}
}
