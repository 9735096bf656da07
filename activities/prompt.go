package activities

import (
	"encoding/json"

	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/provider"
)

// promptOf is a contract's prompt for an input, with all that the contract asks a provider
// for. Certification and jobs ask by the same.
func promptOf(c *contract.Contract, p contract.Prompt, input json.RawMessage) provider.Prompt {
	return provider.Prompt{
		System: p.System, User: p.User, Input: input,
		Temperature: c.Parameters.Temperature, MaxTokens: c.Parameters.MaxTokens, Seed: c.Parameters.Seed,
		ResponseFormat: c.Parameters.ResponseFormat, Schema: c.OutputSchema(),
	}
}
