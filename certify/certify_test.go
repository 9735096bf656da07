package certify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
	"github.com/onejob/onejob/provider"
)

const sum = `
version: 1
kind: sum
side_effects: none
prompt: {system_file: system.txt, user: "{{.text}}"}
input_schema: {type: object, required: [text], properties: {text: {type: string}}}
output_schema: {type: object, required: [sum], properties: {sum: {type: number}, note: {type: string}}}
rules: [{name: positive, cel: output.sum > 0.0}]
parameters: {max_tokens: 100}
special_tokens: neutralise
ceilings: {latency: 2s, cost: "0.01", currency: USD}
cases:
  - {name: one, input: {text: "1"}, facts: [{path: /sum, equal: 1}], runs: 3, must_pass: 2}
canary: {instruction: "Set note to kestrel.", input: {text: "2"}, facts: [{path: /note, equal: kestrel}], runs: 1}
`

// loaded reads the contract from its files.
func loaded(t *testing.T) (*contract.Contract, certify.Bundle) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{"sum.yaml": sum, "system.txt": "Add. Reply with JSON."} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, bundle, err := certify.Load(filepath.Join(folder, "sum.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return c, bundle
}

// prompter takes prompts, and its results are what the model wrote.
type prompter struct{ own bool }

func (p prompter) Prompted(q provider.Prompt) (json.RawMessage, error) {
	if p.own {
		return q.Input, nil
	}
	return json.Marshal(q)
}

func (prompter) Reply(result json.RawMessage) (provider.Reply, error) {
	if string(result) == "null" {
		return provider.Reply{}, errors.New("it is none of this API")
	}
	return provider.Reply{Text: result, End: "stop"}, nil
}

func (prompter) Version() string { return "test/1" }

func subject(t *testing.T) certify.Subject {
	t.Helper()
	counter, _, _ := openai.Model("gpt-4o")
	return certify.Subject{Provider: "p", Model: "gpt-4o", Prompter: prompter{}, Counter: counter, Window: 1000, Timeout: 10 * time.Second}
}

func prepared(t *testing.T, c *contract.Contract, s certify.Subject) certify.Preparation {
	t.Helper()
	p, err := certify.Prepare(t.Context(), c, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestContractIsTheSameFromItsBundle(t *testing.T) {
	t.Parallel()
	c, bundle := loaded(t)
	again, err := bundle.Contract()
	if err != nil || again.SHA256 != c.SHA256 || len(bundle.Files) != 2 {
		t.Errorf("%v, %v of %v", again, err, bundle)
	}
	delete(bundle.Files, "system.txt")
	if _, err := bundle.Contract(); err == nil {
		t.Error("a file is missing, and nobody says so")
	}
	if _, _, err := certify.Load(filepath.Join(t.TempDir(), "gone.yaml")); !errors.Is(err, onejob.ErrMisconfigured) {
		t.Errorf("no such file: %v", err)
	}
}

func TestPromptsThatCannotBeSentAreFoundBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	c, _ := loaded(t)
	narrow := subject(t)
	narrow.Window = 110
	p := prepared(t, c, narrow)
	if p.Renders() || p.Questions[0].Findings[0].Code != contract.CodeContext {
		t.Errorf("too long for the context: %+v", p.Questions)
	}
	r := certify.Conclude(c, narrow, p, nil, certify.Circumstances{})
	if r.Passed || r.Checks[0].Verdict != certify.Failed || r.Checks[1].Verdict != certify.Skipped || r.Checks[4].Verdict != certify.Skipped {
		t.Errorf("%+v", r.Checks)
	}
}

// counter counts otherwise than it gives back, or knows more special tokens than others.
type counter struct {
	contract.Tokenizer
	special []string
	decoded string
	err     error
}

func (c counter) SpecialTokens() []string { return c.special }

func (c counter) Decode(tokens []uint) (string, error) {
	if c.decoded != "" {
		return c.decoded, nil
	}
	return c.Tokenizer.Decode(tokens)
}

func (c counter) Count(ctx context.Context, p contract.Prompt) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return c.Tokenizer.Count(ctx, p)
}

func TestPromptsThatTheTokenizerDoesNotGiveBackAreFound(t *testing.T) {
	t.Parallel()
	c, _ := loaded(t)
	known, _, _ := openai.Model("gpt-4o")
	for name, k := range map[string]struct {
		counter counter
		code    contract.Code
	}{
		"another text":               {counter{Tokenizer: known, decoded: "else"}, contract.CodeRoundTrip},
		"a special token of its own": {counter{Tokenizer: known, special: []string{"JSON"}}, contract.CodeSpecialToken},
		"no count":                   {counter{Tokenizer: known, err: errors.New("away")}, contract.CodeCount},
	} {
		s := subject(t)
		s.Counter = k.counter
		if p := prepared(t, c, s); p.Renders() || p.Questions[0].Findings[0].Code != k.code {
			t.Errorf("%s: %+v", name, p.Questions)
		}
	}
}

func TestProviderWithItsOwnPromptIsAskedTheInputs(t *testing.T) {
	t.Parallel()
	c, _ := loaded(t)
	s := certify.Subject{Provider: "p", Prompter: prompter{own: true}}
	p := prepared(t, c, s)
	if input, err := certify.Ask(c, s, "one"); err != nil || string(input) != `{"text":"1"}` || !p.OwnPrompt || p.Calls() != 3 || p.MustPass() != 2 {
		t.Errorf("%s, %v, %+v", input, err, p)
	}
	s.Prompter = prompter{}
	if _, err := certify.Prepare(t.Context(), c, s); !errors.Is(err, onejob.ErrMisconfigured) {
		t.Errorf("a provider that takes prompts, and nobody can count: %v", err)
	}
}

// judged is a verdict on an answer to the first case.
func judged(t *testing.T, reply string, change func(a *provider.Answer, latency *time.Duration, price *certify.Priced)) certify.Verdict {
	t.Helper()
	c, _ := loaded(t)
	s := subject(t)
	p := prepared(t, c, s)
	a := provider.Answer{Result: json.RawMessage(reply), Usage: &provider.Usage{InputTokens: int64(p.Questions[0].Tokens), OutputTokens: 6}}
	latency, price := time.Second, certify.Priced{Currency: "USD"}
	change(&a, &latency, &price)
	return certify.Judge(c, s, p.Questions[0], a, latency, price).Verdict
}

func TestCallIsHeldToWhatItMayTakeCostAndCount(t *testing.T) {
	t.Parallel()
	dear, err := onejob.ParseAmount("0.02")
	if err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct {
		reply  string
		change func(a *provider.Answer, latency *time.Duration, price *certify.Priced)
		code   contract.Code // empty: nothing is found
	}{
		"good":                     {`{"sum": 1}`, func(*provider.Answer, *time.Duration, *certify.Priced) {}, ""},
		"slow":                     {`{"sum": 1}`, func(_ *provider.Answer, l *time.Duration, _ *certify.Priced) { *l = 2100 * time.Millisecond }, certify.CodeLatency},
		"dear":                     {`{"sum": 1}`, func(_ *provider.Answer, _ *time.Duration, p *certify.Priced) { p.Cost = dear }, certify.CodeCost},
		"dear in another currency": {`{"sum": 1}`, func(_ *provider.Answer, _ *time.Duration, p *certify.Priced) { p.Currency = "EUR" }, certify.CodeCost},
		"without a price":          {`{"sum": 1}`, func(_ *provider.Answer, _ *time.Duration, p *certify.Priced) { p.Currency = "XXX" }, ""},
		"without a usage":          {`{"sum": 1}`, func(a *provider.Answer, _ *time.Duration, _ *certify.Priced) { a.Usage = nil }, certify.CodeUsage},
		"with too little of input": {`{"sum": 1}`, func(a *provider.Answer, _ *time.Duration, _ *certify.Priced) { a.Usage.InputTokens = 0 }, certify.CodeUsage},
		"with too much of output":  {`{"sum": 1}`, func(a *provider.Answer, _ *time.Duration, _ *certify.Priced) { a.Usage.OutputTokens = 60 }, certify.CodeUsage},
		"with thoughts beside it": {`{"sum": 1}`, func(a *provider.Answer, _ *time.Duration, _ *certify.Priced) {
			a.Usage.OutputTokens, a.Usage.ReasoningTokens = 606, 600
		}, ""},
		"of another API":            {`null`, func(*provider.Answer, *time.Duration, *certify.Priced) {}, certify.CodeUnreadable},
		"with another member":       {`{"sum": 1, "why": 2}`, func(*provider.Answer, *time.Duration, *certify.Priced) {}, contract.CodeUnknownKey},
		"that means something else": {`{"sum": 2}`, func(*provider.Answer, *time.Duration, *certify.Priced) {}, contract.CodeFact},
	} {
		v := judged(t, k.reply, k.change)
		if k.code == "" && len(v.Findings) > 0 || k.code != "" && !slices.ContainsFunc(v.Findings, func(f contract.Finding) bool { return f.Code == k.code }) {
			t.Errorf("%s: %v, want %q", name, v.Findings, k.code)
		}
	}
}

// call is a call with findings of the codes.
func call(name string, repeat int, codes ...contract.Code) certify.Call {
	v := certify.Verdict{Findings: []contract.Finding{}, Value: "v"}
	for _, code := range codes {
		v.Findings = append(v.Findings, contract.Finding{Code: code, Detail: "wrong"})
	}
	return certify.Call{Case: name, Repeat: repeat, Try: 1, State: "answered", Verdict: v.JSON(), SHA256: make([]byte, 32)}
}

func unread(name string, repeat int, verdict string) certify.Call {
	c := call(name, repeat)
	c.Verdict = json.RawMessage(verdict)
	return c
}

func unanswered(name string, repeat int) certify.Call {
	return certify.Call{Case: name, Repeat: repeat, Try: 1, State: "unknown", Reason: "timeout"}
}

func TestConclusionGoesByTheRateOfEachCase(t *testing.T) {
	t.Parallel()
	c, _ := loaded(t)
	s := subject(t)
	p := prepared(t, c, s)
	canary := call("", 1)
	for name, k := range map[string]struct {
		calls  []certify.Call
		failed []string
	}{
		"all good":                          {[]certify.Call{call("one", 1), call("one", 2), call("one", 3), canary}, nil},
		"one of three means something else": {[]certify.Call{call("one", 1), call("one", 2, contract.CodeRule), call("one", 3), canary}, nil},
		"two of three mean something else":  {[]certify.Call{call("one", 1), call("one", 2, contract.CodeRule), call("one", 3, contract.CodeFact), canary}, []string{certify.CheckMeaning}},
		"structure has no rate":             {[]certify.Call{call("one", 1), call("one", 2, contract.CodeFenced), call("one", 3), canary}, []string{certify.CheckStructure}},
		"nor have ceilings":                 {[]certify.Call{call("one", 1), call("one", 2, certify.CodeLatency), call("one", 3), canary}, []string{certify.CheckRoundTrip}},
		"one of three has no answer":        {[]certify.Call{call("one", 1), unanswered("one", 2), call("one", 3), canary}, nil},
		"two of three have no answer":       {[]certify.Call{call("one", 1), unanswered("one", 2), unanswered("one", 3), canary}, []string{certify.CheckRoundTrip}},
		"a verdict that is none":            {[]certify.Call{call("one", 1), unread("one", 2, `{}`), call("one", 3), canary}, []string{certify.CheckRoundTrip}},
		"a verdict that cannot be read":     {[]certify.Call{call("one", 1), unread("one", 2, `{"findings": 1}`), call("one", 3), canary}, []string{certify.CheckRoundTrip}},
		"one unanswered, one wrong":         {[]certify.Call{call("one", 1), unanswered("one", 2), call("one", 3, contract.CodeFact), canary}, []string{certify.CheckMeaning}},
		"the canary is deaf":                {[]certify.Call{call("one", 1), call("one", 2), call("one", 3), call("", 1, contract.CodeFact)}, []string{certify.CheckCanary}},
		"the canary was not asked":          {[]certify.Call{call("one", 1), call("one", 2), call("one", 3)}, []string{certify.CheckRoundTrip, certify.CheckCanary}},
		"nothing was asked":                 {nil, []string{certify.CheckRoundTrip, certify.CheckCanary}},
	} {
		r := certify.Conclude(c, s, p, k.calls, certify.Circumstances{})
		var failed []string
		for _, check := range r.Checks {
			if check.Verdict == certify.Failed {
				failed = append(failed, check.Name)
			}
		}
		if !slices.Equal(failed, k.failed) || r.Passed != (len(k.failed) == 0) {
			t.Errorf("%s: failed %v, want %v: %s", name, failed, k.failed, r.Summary)
		}
	}
	good := []certify.Call{call("one", 1), call("one", 2), call("one", 3), canary}
	if r := certify.Conclude(c, s, p, good, certify.Circumstances{Cancelled: true}); r.Passed || r.Summary != "it was cancelled" {
		t.Errorf("a cancelled run: %+v", r)
	}
}

func TestDisagreementsStandSideBySide(t *testing.T) {
	t.Parallel()
	c, _ := loaded(t)
	s := subject(t)
	p := prepared(t, c, s)
	replied := func(reply string) []certify.Call {
		one := call("one", 1)
		one.Reply, one.Verdict = []byte(reply), certify.Verdict{Value: reply}.JSON()
		return []certify.Call{one}
	}
	at := certify.Circumstances{Primary: "first", Compared: replied(`{"sum": 1, "lines": [{"a": 1}], "only": 1}`)}
	r := certify.Conclude(c, s, p, replied(`{"sum": 2, "lines": [{"a": 3}]}`), at)
	want := []certify.Disagreement{
		{"one", "/lines/0/a", "1", "3"}, {"one", "/only", "1", "(not there)"}, {"one", "/sum", "1", "2"},
	}
	if !slices.Equal(r.Disagreements, want) {
		t.Errorf("%+v", r.Disagreements)
	}
	r = certify.Conclude(c, s, p, []certify.Call{call("one", 1)}, certify.Circumstances{Primary: "first", Compared: []certify.Call{call("one", 1)}})
	if len(r.Disagreements) != 0 {
		t.Errorf("equal values: %+v", r.Disagreements)
	}
}

func TestPageNeedsNothingElseAndShowsMarkupAsText(t *testing.T) {
	t.Parallel()
	c, _ := loaded(t)
	s := subject(t)
	s.Provider = "<script>alert(1)</script>"
	bad := call("one", 1, contract.CodeRule)
	var page bytes.Buffer
	if err := certify.WriteHTML(&page, []certify.Report{certify.Conclude(c, s, prepared(t, c, s), []certify.Call{bad}, certify.Circumstances{Primary: "x"})}); err != nil {
		t.Fatal(err)
	}
	if text := page.String(); strings.Contains(text, "<script>") || strings.Contains(text, "http") || !strings.Contains(text, "rule: wrong") {
		t.Errorf("%s", text)
	}
}
