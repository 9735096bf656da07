package config

import (
	"time"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// Provider is a provider as the file describes it.
type Provider struct {
	Name        string
	Type        string // http, openai or anthropic
	URL         string
	Model       string  // empty: the provider has none
	Headers     Headers // sent with every request
	Timeout     time.Duration
	ListenFor   time.Duration
	Idempotency *Idempotency // nil: the provider does not honour keys
	Lookup      *Lookup      // nil: the provider cannot be asked
	Cancel      *Cancel      // nil: it cannot be asked to give up
	Callback    *Callback    // nil: it does not call back
	Limits      provider.Limits
	Unpriced    bool // it may be used without a price
	Certain     verdict.Certain
	Proxy       string // URL; empty: none, whatever the environment says
	Tokenizer   string // the model of OpenAI as which its model counts tokens; empty: as the model is known to
	Context     int    // tokens of the model's context; 0: as it is known
	Vendor      Vendor // of type openai and anthropic
}

// Headers are headers by canonical name. Their values may be secrets, so printing them
// shows the names only.
type Headers map[string]string

// Callback says how a provider signs what it calls back with.
type Callback struct {
	Secrets Secrets // of Standard Webhooks, whsec_…; more than one while they are replaced
}

// Idempotency says how a provider is told which requests are the same one.
type Idempotency struct {
	Header string
	Window time.Duration // how long the provider remembers a key; 0: not known, it is never asked again
	ReAsks int           // the most re-asks of an attempt
}

// Lookup says how a provider is asked what became of a request.
type Lookup struct {
	URL           string // of type http: holds the call's name, {ref} for the provider's
	Interval      time.Duration
	MaxInterval   time.Duration
	NotFoundAfter time.Duration     // the age from which a call that is not found had no effect; 0: never
	States        map[string]string // of type http: what the provider's words mean
	Result        string            // of type http: the member with the result; empty: result
}

// Cancel says how a provider of type http is asked to give a request up.
type Cancel struct {
	URL    string // as that of a lookup
	Method string
}
