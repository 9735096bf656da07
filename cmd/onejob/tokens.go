package main

import (
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
	"github.com/onejob/onejob/provider"
)

// tokensOf says how the configured providers' models count.
func tokensOf(*config.Config) activities.Tokens {
	return func(p provider.Provider) (contract.Counter, int, bool) {
		return openai.Model(p.Model)
	}
}
