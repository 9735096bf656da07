package onejob

import (
	stdjson "encoding/json"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reckoning is what a job may come to, for the budget guard: it reserves the charge of this
// usage at the dearest of the candidates, by the prices of the moment, the price of a call
// included. It is a bound for most jobs and no promise: what a job really uses is charged in
// full.
type Reckoning struct {
	Candidates   []Candidate // the provider and the fallbacks, in order
	InputTokens  int64       // of the input, or of the contract's prompt for it, by [TokensIn]
	OutputTokens int64       // that an answer may have, by [AllowedOutput] or the contract
}

// Candidate is a provider that a job may ask, and the model that it is asked for.
type Candidate struct{ Provider, Model string }

// reckon returns what the request may come to. It returns an [ErrInvalidRequest] if the
// contract of the kind cannot ask for the input.
func (c Catalog) reckon(r Request) (Reckoning, error) {
	bytes, answer, err := c.Kinds[r.Kind].prompt(r.Kind, r.Input)
	if err != nil {
		return Reckoning{}, err
	}
	reckoning := Reckoning{InputTokens: TokensIn(bytes), OutputTokens: answer}
	for _, name := range r.providers() {
		reckoning.Candidates = append(reckoning.Candidates, Candidate{Provider: name, Model: c.Providers[name].Model})
	}
	return reckoning, nil
}

// bytesPerToken is how many bytes of JSON text the tokenizers of the day make one token
// of, in English prose; other scripts have fewer bytes to the token.
const bytesPerToken = 4

// TokensIn estimates the tokens of a text of so many bytes: one for every four, rounded up.
func TokensIn(bytes int) int64 { return (int64(bytes) + bytesPerToken - 1) / bytesPerToken }

const (
	defaultOutput = 4096 // tokens of an answer that its request does not bound
	mostOutput    = 1e9  // more is no bound: no answer is as long
)

// AllowedOutput returns how many tokens an answer to the input may have: the first of
// max_output_tokens, max_completion_tokens and max_tokens that is a number above zero at the
// top of the input, and 4096 if none is. The vendors' APIs bound an answer by these names.
func AllowedOutput(input stdjson.RawMessage) int64 {
	var bounds struct {
		Responses jsontext.Value `json:"max_output_tokens"`
		Chat      jsontext.Value `json:"max_completion_tokens"`
		Messages  jsontext.Value `json:"max_tokens"`
	}
	if json.Unmarshal(input, &bounds, jsontext.AllowDuplicateNames(true)) != nil {
		return defaultOutput // it is no object
	}
	for _, bound := range []jsontext.Value{bounds.Responses, bounds.Chat, bounds.Messages} {
		if bound.Kind() != jsontext.KindNumber {
			continue
		}
		if tokens, _ := strconv.ParseFloat(string(bound), 64); tokens > 0 { // out of range: infinite
			return int64(math.Ceil(min(tokens, mostOutput)))
		}
	}
	return defaultOutput
}
