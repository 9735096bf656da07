package certify

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/provider"
)

// Subject is who is to prove itself.
type Subject struct {
	Provider string
	Model    string // empty: the provider has none
	Prompter provider.Prompter
	Counter  contract.Counter // of the model's tokens; nil: not known
	Window   int              // tokens of the model's context, where Counter is known
	Timeout  time.Duration    // after which a job takes an attempt for unknown; 0: it does not
}

// PromptOf returns what the provider is asked by a rendered prompt of the contract.
func PromptOf(c *contract.Contract, p contract.Prompt, input json.RawMessage) provider.Prompt {
	return provider.Prompt{
		System: p.System, User: p.User, Input: input,
		Temperature: c.Parameters.Temperature, MaxTokens: c.Parameters.MaxTokens, Seed: c.Parameters.Seed,
		ResponseFormat: c.Parameters.ResponseFormat, Schema: c.OutputSchema(),
	}
}

// takesPrompts says whether the provider is sent prompts at all. One that has its own takes the
// input as it is: another prompt makes no other request.
func (s Subject) takesPrompts() (bool, error) {
	p := provider.Prompt{System: "a", User: "b", Input: json.RawMessage(`{}`), MaxTokens: 1, ResponseFormat: contract.FormatText}
	one, err := s.Prompter.Prompted(p)
	if err != nil {
		return false, err
	}
	p.System, p.User = "c", "d"
	other, err := s.Prompter.Prompted(p)
	return !bytes.Equal(one, other), err
}
