package certify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/provider"
)

// The codes of findings about a call, beside those that package contract has.
const (
	CodeLatency    contract.Code = "latency"    // the answer took longer than the ceiling
	CodeCost       contract.Code = "cost"       // the call cost more than the ceiling
	CodeUsage      contract.Code = "usage"      // the usage told is not what the tokenizer counts
	CodeUnreadable contract.Code = "unreadable" // the result is none of the provider's API
)

// How far what a provider tells as usage may be from what its tokenizer counts: a vendor's
// envelope adds some tokens to each message.
const (
	usageShare = 0.10
	usageSlack = 16 // tokens
)

// Priced is what a call cost.
type Priced struct {
	Cost     onejob.Amount
	Currency string // [onejob.NoCurrency]: it has no price
}

// Verdict is what is said of one answer, as it is stored.
type Verdict struct {
	Findings []contract.Finding `json:"findings"`
	Served   string             `json:"served,omitempty"`       // the model that answered, as it says
	Value    string             `json:"value_sha256,omitempty"` // of the reply's canonical JSON, in hex; equal values have equal ones
	End      string             `json:"end,omitempty"`
}

// Judgement is a verdict on an answer and what the model wrote.
type Judgement struct {
	Verdict Verdict
	Reply   []byte
}

// Judge judges a successful answer to the question.
func Judge(c *contract.Contract, s Subject, q Question, a provider.Answer, latency time.Duration, price Priced) Judgement {
	k, _ := CaseOf(c, q.Case)
	reply, err := s.Prompter.Reply(a.Result)
	if err != nil {
		return Judgement{Verdict: Verdict{Findings: []contract.Finding{{Code: CodeUnreadable, Detail: onejob.Shorten(err.Error(), 300)}}}}
	}
	v := Verdict{Findings: []contract.Finding{}, End: reply.End}
	v.Findings = append(v.Findings, c.CheckCase(k, reply.Text, reply.End).Findings...)
	v.Findings = append(v.Findings, checkCeilings(c.Ceilings, s.Timeout, latency, price)...)
	if a.Usage != nil {
		v.Served = a.Usage.Model
	}
	if s.Counter != nil && q.Tokens > 0 {
		v.Findings = append(v.Findings, checkUsage(s.Counter, q, a.Usage, reply.Text)...)
	}
	if canonical, err := onejob.CanonicalJSON("the reply", reply.Text, 200); err == nil {
		sum := sha256.Sum256(canonical)
		v.Value = hex.EncodeToString(sum[:])
	}
	return Judgement{Verdict: v, Reply: reply.Text}
}

// JudgeFailure judges an answer that the adapter did not take for a result, if it was one of the
// model: the reason says so. The adapter puts the end in front of the detail.
func JudgeFailure(a provider.Answer) (v Verdict, isAnswer bool) {
	if a.Reason != onejob.ReasonContractViolation {
		return v, false
	}
	end, _, _ := strings.Cut(a.Detail, ":")
	return Verdict{Findings: []contract.Finding{{Code: contract.CodeEnd, Name: onejob.Shorten(end, 60), Detail: onejob.Shorten(a.Detail, 300)}}, End: onejob.Shorten(end, 60)}, true
}

func checkCeilings(c contract.Ceilings, timeout, latency time.Duration, price Priced) (findings []contract.Finding) {
	switch took := latency.Round(time.Millisecond); {
	case c.Latency > 0 && latency > c.Latency:
		findings = append(findings, contract.Finding{Code: CodeLatency, Detail: fmt.Sprintf("it took %v, the ceiling is %v", took, c.Latency)})
	case timeout > 0 && latency > timeout:
		findings = append(findings, contract.Finding{Code: CodeLatency, Detail: fmt.Sprintf("it took %v, and a job takes an attempt for unknown after %v", took, timeout)})
	}
	switch {
	case c.Currency == "" || price.Currency == onejob.NoCurrency || price.Currency == "":
	case price.Currency != c.Currency:
		findings = append(findings, contract.Finding{Code: CodeCost, Detail: fmt.Sprintf("it cost %s %s, the ceiling is in %s: state both in one currency", price.Cost, price.Currency, c.Currency)})
	case price.Cost.Cmp(c.Cost) > 0:
		findings = append(findings, contract.Finding{Code: CodeCost, Detail: fmt.Sprintf("it cost %s %s, the ceiling is %s", price.Cost, price.Currency, c.Cost)})
	}
	return findings
}

// checkUsage compares what was told with what the tokenizer counts. What a model thought before
// it wrote is in no reply.
func checkUsage(counter contract.Counter, q Question, told *provider.Usage, reply []byte) (findings []contract.Finding) {
	if told == nil || told.Estimated {
		return []contract.Finding{{Code: CodeUsage, Name: "missing", Detail: "the answer tells no usage: what it costs would be a guess"}}
	}
	if f, ok := outside("input", told.InputTokens, q.Tokens, q.Most); ok {
		findings = append(findings, f)
	}
	t, ok := counter.(contract.Tokenizer)
	if !ok {
		return findings
	}
	tokens, err := t.Encode(string(reply))
	if err != nil {
		return findings // the reply is judged by its bytes elsewhere
	}
	if f, ok := outside("output", told.OutputTokens-told.ReasoningTokens, len(tokens), len(tokens)); ok {
		findings = append(findings, f)
	}
	return findings
}

func outside(what string, told int64, least, most int) (contract.Finding, bool) {
	low, high := float64(least)*(1-usageShare)-usageSlack, float64(most)*(1+usageShare)+usageSlack
	if n := float64(told); n >= low && n <= high {
		return contract.Finding{}, false
	}
	return contract.Finding{Code: CodeUsage, Name: what, Detail: fmt.Sprintf("it tells %d tokens of %s, the tokenizer counts %d", told, what, least)}, true
}

// JSON returns the verdict as it is stored.
func (v Verdict) JSON() json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings alone
	}
	return text
}
