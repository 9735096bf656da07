package config

import (
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/verdict"
)

// Providers returns the configured providers with their adapters, in the order of the
// file. It returns an [onejob.ErrMisconfigured] that names the provider if an adapter
// refuses its part.
func (c *Config) Providers() ([]provider.Provider, error) {
	var all []provider.Provider
	for _, p := range c.HTTP {
		adapter, err := httpjson.New(c.adapterConfig(p))
		if err != nil {
			return nil, err
		}
		all = append(all, provider.Provider{Name: p.Name, Adapter: adapter, Timeout: p.Timeout, ListenFor: p.ListenFor})
	}
	return all, nil
}

func (c *Config) adapterConfig(p HTTPProvider) httpjson.Config {
	var keyHeader string
	if p.Idempotency != nil {
		keyHeader = p.Idempotency.Header
	}
	return httpjson.Config{
		Name:              p.Name,
		URL:               p.URL,
		Headers:           p.Headers,
		IdempotencyHeader: keyHeader,
		Limits:            c.Limits,
		Certain:           verdict.Certain{NoEffect: p.NoEffect, Refused: p.Refused},
		Proxy:             p.Proxy,
	}
}
