package config

import (
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
)

// Adapters returns the configured providers with their adapters, in the order of the
// file. It returns an [onejob.ErrMisconfigured] that names the provider if an adapter
// refuses its part.
func (c *Config) Adapters() ([]provider.Provider, error) {
	var all []provider.Provider
	for _, p := range c.Providers {
		adapter, err := c.adapter(p)
		if err != nil {
			return nil, err
		}
		all = append(all, provider.Provider{
			Name: p.Name, Model: p.Model, URL: p.URL, Adapter: adapter, Timeout: p.Timeout, ListenFor: p.ListenFor,
			LookUp: p.lookUpPolicy(), ReAsk: p.reAskPolicy(), Callback: p.callbackPolicy(), Limits: p.Limits,
		})
	}
	return all, nil
}

func (c *Config) adapter(p Provider) (provider.Adapter, error) {
	if p.Type != httpType {
		return p.vendor(c.Limits)
	}
	return httpjson.New(c.httpjson(p))
}

// lookup returns how the provider is asked; the zero Lookup is that of one that is not.
func (p Provider) lookup() Lookup {
	switch {
	case p.Lookup != nil:
		return *p.Lookup
	case p.takesReferences():
		return Lookup{Interval: defaultInterval, MaxInterval: defaultMaxInterval}
	}
	return Lookup{}
}

func (p Provider) lookUpPolicy() *provider.LookUpPolicy {
	l := p.lookup()
	if l.Interval == 0 {
		return nil
	}
	return &provider.LookUpPolicy{Interval: l.Interval, MaxInterval: l.MaxInterval}
}

func (p Provider) reAskPolicy() *provider.ReAskPolicy {
	if p.Idempotency == nil || p.Idempotency.Window == 0 || p.Idempotency.ReAsks == 0 {
		return nil
	}
	return &provider.ReAskPolicy{Window: p.Idempotency.Window, Most: p.Idempotency.ReAsks}
}

func (p Provider) callbackPolicy() *provider.CallbackPolicy {
	if p.Callback == nil {
		return nil
	}
	return &provider.CallbackPolicy{Secrets: p.Callback.Secrets}
}

func (p Provider) keyHeader() string {
	if p.Idempotency == nil {
		return ""
	}
	return p.Idempotency.Header
}

func (c *Config) httpjson(p Provider) httpjson.Config {
	h := httpjson.Config{
		Name: p.Name, URL: p.URL, Headers: p.Headers, IdempotencyHeader: p.keyHeader(),
		Limits: c.Limits, Certain: p.Certain, Proxy: p.Proxy,
	}
	if l := p.lookup(); l.URL != "" {
		h.LookUp = httpjson.LookUp{URL: l.URL, NotFoundAfter: l.NotFoundAfter, States: l.States, Result: l.Result}
	}
	if p.Cancel != nil {
		h.Cancel = httpjson.Cancel{URL: p.Cancel.URL, Method: p.Cancel.Method}
	}
	return h
}
