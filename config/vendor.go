package config

import (
	"slices"
	"strings"

	"github.com/onejob/onejob"
	tokens "github.com/onejob/onejob/contract/openai"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/openai"
)

// Vendor is what a provider of type openai or anthropic has beside.
type Vendor struct {
	APIKey     Secret // empty: none is sent
	API        string
	Background bool
	Stream     bool
	Accept     []string // the ends that are a result; empty: those of a whole answer
}

// Secret is a value that printing does not show.
type Secret string

// String shows nothing of it.
func (Secret) String() string { return "***" }

// GoString shows nothing of it.
func (Secret) GoString() string { return "***" }

// vendorMembers are what a provider of type openai or anthropic may have beside. The
// defaults are the vendor's.
func (p *Provider) vendorMembers() map[string]member {
	apis := []string{openai.Chat, openai.Responses}
	p.URL, p.Vendor.API = openai.DefaultURL, openai.Chat
	if p.Type == anthropicType {
		apis = []string{anthropic.Messages, anthropic.Batch}
		p.URL, p.Vendor.API = anthropic.DefaultURL, anthropic.Messages
	}
	members := map[string]member{
		"api_key": set(&p.Vendor.APIKey, secret),
		"api":     set(&p.Vendor.API, oneOf(apis...)),
		"stream":  set(&p.Vendor.Stream, flag),
		"accept":  set(&p.Vendor.Accept, texts),
		"lookup":  set(&p.Lookup, vendorLookup),

		"tokenizer": set(&p.Tokenizer, tokenizer),
		"context":   set(&p.Context, whole(1, mostContext)),
	}
	if p.Type == openaiType {
		members["background"] = set(&p.Vendor.Background, flag)
	}
	return members
}

// checkVendor looks at what the members say together: the adapter knows.
func (p *Provider) checkVendor(e element) error {
	adapter, err := p.vendor(onejob.Limits{})
	if err != nil {
		return e.errorf("cannot be used: %s", strings.TrimPrefix(err.Error(), "provider "+quoted(p.Name)+": "))
	}
	if closer, ok := adapter.(interface{ Close() }); ok {
		closer.Close()
	}
	if p.Lookup != nil && !p.takesReferences() {
		return e.errorf("has a lookup, and its answers come on the connection: remove it, or set background: true or api: batch")
	}
	return nil
}

// takesReferences says that the vendor takes calls under a reference, to be looked up.
func (p Provider) takesReferences() bool {
	return p.Vendor.Background || p.Vendor.API == anthropic.Batch
}

func (p Provider) vendor(limits onejob.Limits) (provider.Adapter, error) {
	notFoundAfter := p.lookup().NotFoundAfter
	if p.Type == anthropicType {
		return anthropic.New(anthropic.Config{
			Name: p.Name, URL: p.URL, APIKey: string(p.Vendor.APIKey), Headers: p.Headers, Model: p.Model, API: p.Vendor.API,
			Stream: p.Vendor.Stream, Accept: p.Vendor.Accept, IdempotencyHeader: p.keyHeader(),
			NotFoundAfter: notFoundAfter, Limits: limits, Certain: p.Certain, Proxy: p.Proxy,
		})
	}
	return openai.New(openai.Config{
		Name: p.Name, URL: p.URL, APIKey: string(p.Vendor.APIKey), Headers: p.Headers, Model: p.Model, API: p.Vendor.API,
		Background: p.Vendor.Background, Stream: p.Vendor.Stream, Accept: p.Vendor.Accept, IdempotencyHeader: p.keyHeader(),
		NotFoundAfter: notFoundAfter, Limits: limits, Certain: p.Certain, Proxy: p.Proxy,
	})
}

// mostContext bounds the context of a model, in tokens.
const mostContext = 100_000_000

// tokenizer is the name of a model whose tokenizer is known.
func tokenizer(e element) (string, error) {
	model, err := text(e)
	if err == nil && !tokens.Known(model) {
		return "", e.errorf("is %s, whose tokenizer is not known: name a model of OpenAI that counts as this one does, like gpt-4o", quoted(model))
	}
	return model, err
}

// secret is a text that comes from the environment.
func secret(e element) (Secret, error) {
	raw, err := rawText(e)
	if err != nil {
		return "", err
	}
	if !reference.MatchString(raw) {
		return "", e.errorf("holds a secret in clear text: write ${env:NAME} in its place and export the variable")
	}
	resolved, err := expanded(e)
	return Secret(resolved), err
}

// texts is a list of different texts.
func texts(e element) (all []string, err error) {
	err = e.list(func(item element) error {
		s, err := text(item)
		if err == nil && slices.Contains(all, s) {
			return item.errorf("is %s a second time: name it once", quoted(s))
		}
		all = append(all, s)
		return err
	})
	return all, err
}

// adapterVersion returns the version of the provider's adapter and where it asks, which
// certificates are of.
func (p Provider) adapterVersion() string { return provider.VersionAt(p.promptVersion(), p.URL) }

func (p Provider) promptVersion() string {
	switch p.Type {
	case openaiType:
		return openai.VersionOf(p.Vendor.API)
	case anthropicType:
		return anthropic.VersionOf(p.Vendor.API)
	}
	return httpjson.Version
}
