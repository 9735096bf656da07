package certify

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
)

// The checks, in the order in which they are told.
const (
	CheckRenders   = "renders"
	CheckStructure = "structure"
	CheckMeaning   = "meaning"
	CheckRoundTrip = "round_trip"
	CheckCanary    = "system_prompt"
)

// The verdicts of a check.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // it does not apply to the provider, or a check before it failed
)

// Call is an answer, or what came instead of one.
type Call struct {
	Case      string // empty: the canary
	Repeat    int
	Try       int
	State     string // answered, failed or unknown
	Reason    string
	Detail    string
	Usage     json.RawMessage
	SHA256    []byte // of the reply
	Reply     []byte // where it is kept
	Verdict   json.RawMessage
	Latency   time.Duration
	StartedAt time.Time
	Cost      onejob.Amount
	Currency  string // [onejob.NoCurrency] or empty: it has no price
}

// Report is what a certification found.
type Report struct {
	RunID         string         `json:"run_id"`
	Contract      string         `json:"contract"` // kind
	Version       int            `json:"version"`
	SHA256        string         `json:"contract_sha256"`
	Provider      string         `json:"provider"`
	Model         string         `json:"model"`
	Adapter       string         `json:"adapter"`
	Tokenizer     string         `json:"tokenizer"` // empty: the provider has its own prompt
	Window        int            `json:"context"`
	Passed        bool           `json:"passed"`
	Summary       string         `json:"summary"` // one line: why it did not pass
	Checks        []Check        `json:"checks"`
	Cases         []CaseReport   `json:"cases"`
	Totals        Totals         `json:"totals"`
	Primary       string         `json:"primary,omitempty"` // whose answers were compared with
	Disagreements []Disagreement `json:"disagreements"`
}

// Check is one of the five checks.
type Check struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	Says    string `json:"says"` // one line: the first thing that is wrong, or why it was skipped
	Count   int    `json:"findings"`
}

// CaseReport says how a case went.
type CaseReport struct {
	Name     string             `json:"name"`
	Canary   bool               `json:"canary"`
	Runs     int                `json:"runs"`
	MustPass int                `json:"must_pass"`
	Passed   int                `json:"passed"`  // runs
	Values   int                `json:"values"`  // different replies, by their value; more than one: it drifts
	Tokens   int                `json:"tokens"`  // of the prompt
	Renders  []contract.Finding `json:"renders"` // what is wrong with the prompt
	Calls    []CallReport       `json:"calls"`
}

// CallReport is one call.
type CallReport struct {
	Repeat    int                `json:"repeat"`
	Try       int                `json:"try"`
	State     string             `json:"state"`
	Reason    string             `json:"reason,omitempty"`
	Detail    string             `json:"detail,omitempty"`
	End       string             `json:"end,omitempty"`
	Served    string             `json:"served,omitempty"`
	SHA256    string             `json:"reply_sha256,omitempty"`
	Reply     *string            `json:"reply,omitempty"` // where the contract keeps payloads
	Findings  []contract.Finding `json:"findings"`
	LatencyMS int64              `json:"latency_ms"`
	Usage     json.RawMessage    `json:"usage,omitempty"`
	Cost      string             `json:"cost,omitempty"`
	Currency  string             `json:"currency,omitempty"`
	StartedAt time.Time          `json:"started_at"`

	value string
}

// Totals are of all calls.
type Totals struct {
	Calls            int    `json:"calls"`
	Answered         int    `json:"answered"`
	Cost             string `json:"cost"`
	Currency         string `json:"currency"` // empty: nothing has a price
	LongestLatencyMS int64  `json:"longest_latency_ms"`
}

// Disagreement is where an answer to a case differs from the primary's.
type Disagreement struct {
	Case    string `json:"case"`
	Path    string `json:"path"` // JSON Pointer; empty: the whole reply
	Primary string `json:"primary"`
	This    string `json:"this"`
}

// Circumstances are what a conclusion is about.
type Circumstances struct {
	RunID     string
	Adapter   string
	Cancelled bool
	Primary   string // provider whose calls PrimaryCalls are; empty: none
	Compared  []Call
}

// Conclude makes the report of the calls, and decides whether the subject has passed.
func Conclude(c *contract.Contract, s Subject, p Preparation, calls []Call, at Circumstances) Report {
	r := Report{
		RunID: at.RunID, Contract: c.Kind, Version: c.Version, SHA256: c.SHA256, Provider: s.Provider, Model: s.Model, Adapter: at.Adapter,
		Tokenizer: p.Tokenizer, Window: p.Window, Cases: []CaseReport{}, Disagreements: []Disagreement{}, Primary: at.Primary,
	}
	for _, q := range p.Questions {
		r.Cases = append(r.Cases, reportCase(q, calls, c.KeepPayloads))
	}
	r.Totals = total(calls)
	r.Checks = []Check{r.renders(p), r.structure(p), r.meaning(p), r.roundTrip(p), r.canary(p)}
	if at.Primary != "" {
		r.Disagreements = disagreements(p, calls, at.Compared)
	}
	r.Passed = !at.Cancelled && !slices.ContainsFunc(r.Checks, func(k Check) bool { return k.Verdict == Failed })
	r.Summary = r.summary(at)
	return r
}

func reportCase(q Question, calls []Call, keep bool) CaseReport {
	k := CaseReport{Name: q.Case, Canary: q.Case == "", Runs: q.Runs, MustPass: q.MustPass, Tokens: q.Tokens, Renders: append([]contract.Finding{}, q.Findings...), Calls: []CallReport{}}
	if k.Canary {
		k.Name = "canary"
	}
	values := map[string]bool{}
	for _, call := range calls {
		if call.Case != q.Case {
			continue
		}
		one := reportCall(call, keep)
		k.Calls = append(k.Calls, one)
		if call.State == "answered" && !slices.ContainsFunc(one.Findings, func(f contract.Finding) bool { return checkOf(f.Code) != CheckRoundTrip }) {
			k.Passed++
		}
		if one.value != "" {
			values[one.value] = true
		}
	}
	k.Values = len(values)
	return k
}

func reportCall(call Call, keep bool) CallReport {
	one := CallReport{
		Repeat: call.Repeat, Try: call.Try, State: call.State, Reason: call.Reason, Detail: call.Detail, SHA256: hex.EncodeToString(call.SHA256),
		Findings: []contract.Finding{}, LatencyMS: call.Latency.Milliseconds(), Usage: call.Usage, StartedAt: call.StartedAt,
	}
	var v Verdict
	if call.Verdict != nil {
		// An answer of which nothing can be read has not passed.
		if err := json.Unmarshal(call.Verdict, &v); err != nil || v.Findings == nil {
			v.Findings = []contract.Finding{{Code: CodeUnreadable, Detail: "what was found in the answer cannot be read: another version of onejob wrote it"}}
		}
		one.Findings, one.End, one.Served, one.value = append(one.Findings, v.Findings...), v.End, v.Served, v.Value
	}
	if keep && call.Reply != nil {
		text := string(call.Reply)
		one.Reply = &text
	}
	if call.Currency != "" {
		one.Cost, one.Currency = call.Cost.String(), call.Currency
	}
	return one
}

// checkOf is the check that a finding about a reply belongs to.
func checkOf(code contract.Code) string {
	switch code {
	case contract.CodeRule, contract.CodeRuleError, contract.CodeFact:
		return CheckMeaning
	case CodeLatency, CodeCost, CodeUsage, CodeUnreadable:
		return CheckRoundTrip
	case contract.CodeInput, contract.CodeTemplate, contract.CodeSpecialToken, contract.CodeContext, contract.CodeRoundTrip, contract.CodeCount:
		return CheckRenders
	}
	return CheckStructure
}

func total(calls []Call) (t Totals) {
	var cost onejob.Amount
	for _, call := range calls {
		t.Calls++
		if call.State == "answered" {
			t.Answered++
		}
		t.LongestLatencyMS = max(t.LongestLatencyMS, call.Latency.Milliseconds())
		if call.Currency != "" && call.Currency != onejob.NoCurrency {
			t.Currency = call.Currency
			cost = cost.Add(call.Cost)
		}
	}
	t.Cost = cost.String()
	return t
}

// found makes a check of what was found.
func found(name string, says []string) Check {
	if len(says) == 0 {
		return Check{Name: name, Verdict: Passed}
	}
	return Check{Name: name, Verdict: Failed, Says: says[0], Count: len(says)}
}

func skipped(name, why string) Check { return Check{Name: name, Verdict: Skipped, Says: why} }

const (
	ownPrompt   = "the provider has its own prompt and takes the input as it is"
	notRendered = "no call was made: the prompts do not render"
)

func (r Report) renders(p Preparation) Check {
	var says []string
	for _, k := range r.Cases {
		for _, f := range k.Renders {
			says = append(says, fmt.Sprintf("case %s: %s", k.Name, f.Error()))
		}
	}
	if p.OwnPrompt && len(says) == 0 {
		return skipped(CheckRenders, ownPrompt)
	}
	return found(CheckRenders, says)
}

// each returns what the calls of the cases found that belongs to the check.
func (r Report) each(check string, canary bool) (says []string) {
	for _, k := range r.Cases {
		if k.Canary != canary {
			continue
		}
		for _, call := range k.Calls {
			for _, f := range call.Findings {
				if checkOf(f.Code) == check {
					says = append(says, fmt.Sprintf("case %s, run %d: %s", k.Name, call.Repeat, f.Error()))
				}
			}
		}
	}
	return says
}

// structure has no rate: a reply that programs cannot read is refused wherever it comes from.
func (r Report) structure(p Preparation) Check {
	if !p.Renders() {
		return skipped(CheckStructure, notRendered)
	}
	return found(CheckStructure, r.each(CheckStructure, false))
}

// meaning has the rate that each case asks for.
func (r Report) meaning(p Preparation) Check {
	if !p.Renders() {
		return skipped(CheckMeaning, notRendered)
	}
	var says []string
	for _, k := range r.Cases {
		if k.Canary {
			continue
		}
		var wrong []string
		held := 0
		for _, call := range k.Calls {
			i := slices.IndexFunc(call.Findings, func(f contract.Finding) bool { return checkOf(f.Code) == CheckMeaning })
			switch {
			case i >= 0:
				wrong = append(wrong, fmt.Sprintf("run %d: %s", call.Repeat, call.Findings[i].Error()))
			case call.State == "answered":
				held++
			}
		}
		if len(wrong) > 0 && held < k.MustPass {
			says = append(says, fmt.Sprintf("case %s: %d of %d runs mean what they must, %d are needed: %s", k.Name, held, k.Runs, k.MustPass, wrong[0]))
		}
	}
	return found(CheckMeaning, says)
}

// roundTrip is about every call, the canary's too. A run without an answer is one that does not
// pass: the rate of its case allows for it or not.
func (r Report) roundTrip(p Preparation) Check {
	if !p.Renders() {
		return skipped(CheckRoundTrip, notRendered)
	}
	says := append(r.each(CheckRoundTrip, false), r.each(CheckRoundTrip, true)...)
	for _, k := range r.Cases {
		answered := 0
		last := "it was not asked"
		for _, call := range k.Calls {
			if call.State == "answered" || len(call.Findings) > 0 {
				answered++
			} else {
				last = fmt.Sprintf("run %d: %s: %s", call.Repeat, call.Reason, call.Detail)
			}
		}
		if answered < k.MustPass {
			says = append(says, fmt.Sprintf("case %s: %d of %d runs have an answer, %d must: %s", k.Name, answered, k.Runs, k.MustPass, last))
		}
	}
	return found(CheckRoundTrip, says)
}

// canary has the rate of its own case; its structure counts with it.
func (r Report) canary(p Preparation) Check {
	switch {
	case p.OwnPrompt:
		return skipped(CheckCanary, ownPrompt)
	case !p.Renders():
		return skipped(CheckCanary, notRendered)
	}
	for _, k := range r.Cases {
		if k.Canary && k.Passed < k.MustPass {
			return found(CheckCanary, append(append(r.each(CheckMeaning, true), r.each(CheckStructure, true)...), "case canary: it was not answered as the instruction says"))
		}
	}
	return found(CheckCanary, nil)
}

func (r Report) summary(at Circumstances) string {
	if at.Cancelled {
		return "it was cancelled"
	}
	var wrong []string
	for _, k := range r.Checks {
		if k.Verdict == Failed {
			wrong = append(wrong, k.Name+": "+k.Says)
		}
	}
	return strings.Join(wrong, "; ")
}
