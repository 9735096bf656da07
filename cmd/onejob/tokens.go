package main

import (
	"cmp"

	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
	"github.com/onejob/onejob/provider"
)

// contextOfVendor is the context of a model whose vendor counts its tokens, unless onejob.yaml
// says another.
const contextOfVendor = 200_000

// tokensOf says how the configured providers' models count: by the tokenizer that onejob.yaml
// names, else as the model of OpenAI that they are, else by asking the vendor.
func tokensOf(from *config.Config) activities.Tokens {
	configured := map[string]config.Provider{}
	for _, p := range from.Providers {
		configured[p.Name] = p
	}
	return func(p provider.Provider) (contract.Counter, int, bool) {
		said := configured[p.Name]
		if t, window, ok := openai.Model(cmp.Or(said.Tokenizer, p.Model)); ok {
			return t, cmp.Or(said.Context, window), true
		}
		if t, ok := p.Adapter.(provider.TokenCounter); ok {
			return certify.AskingCounter("count_tokens of "+p.Model, t), cmp.Or(said.Context, contextOfVendor), true
		}
		return nil, 0, false
	}
}
