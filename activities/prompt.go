package activities

import (
	"encoding/json"
	"fmt"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/provider"
)

// Contracts are the contracts of the kinds of job that have one, by kind.
type Contracts map[string]*contract.Contract

// known returns what the rows have to know of the contract of a kind, nil if it has none.
func (e *execution) known(kind string) *onejob.Contract {
	c, ok := e.Contracts[kind]
	if !ok {
		return nil
	}
	return c.Known()
}

// asked returns the input by which the provider is asked: the job's own, or what its kind's
// contract makes of it. The same input gives the same bytes.
func (e *execution) asked(kind string, input json.RawMessage) (json.RawMessage, error) {
	c, ok := e.Contracts[kind]
	if !ok {
		return input, nil
	}
	prompter, ok := e.provider.Adapter.(provider.Prompter)
	if !ok {
		return nil, fmt.Errorf("the adapter of provider %q cannot be asked by a contract: give the kind %q none, or name another provider", e.in.Provider, kind)
	}
	prompt, err := c.Render(input, nil) // what looks like a special token of any model is taken for one
	if err != nil {
		return nil, fmt.Errorf("the input does not fit the contract %s: %w", c.File, err)
	}
	return prompter.Prompted(certify.PromptOf(c, prompt, input))
}
