// Package provider says what an adapter to a provider must do, and keeps the registry
// of those that a worker may call.
//
// An adapter is the authority on one thing: what is certain about a call. It never
// decides by the wording of an error and never guesses: what may have reached the
// provider and has no final answer is [Unknown].
//
// It imports the domain and nothing else of this module.
package provider

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/onejob/onejob"
)

// Certainty is what we know about a call after it.
type Certainty string

// The certainties.
const (
	Succeeded Certainty = "succeeded" // a whole answer, in Result
	Failed    Certainty = "failed"    // provably no effect, or a final no
	Accepted  Certainty = "accepted"  // taken by the provider under Reference; the answer comes elsewhere
	Unknown   Certainty = "unknown"   // it may have had an effect
)

// Call is one request to a provider, on behalf of one attempt.
type Call struct {
	JobID          string
	Attempt        int    // number within the job
	Kind           string // of the job
	Input          json.RawMessage
	IdempotencyKey string // one per attempt, the same for a re-ask of it
	CallbackURL    string // where the provider may tell the outcome; empty: nowhere
	Body           []byte // of a re-ask: what was sent; see [ReAsker]
}

// Answer is what became of a call.
type Answer struct {
	Certainty  Certainty
	Reason     onejob.Reason   // empty for Succeeded and Accepted
	Detail     string          // one line of prose for people, without secrets; adapters cut it to 4 KiB
	Result     json.RawMessage // of Succeeded: valid JSON within the limits
	Reference  string          // the provider's own name for the call, if it gave one
	Retryable  bool            // of Failed: the same provider may be tried again
	RetryAfter time.Duration   // the provider's hint, 0: none
	Usage      *Usage          // nil: the answer carried none
}

// Usage is what a call used.
type Usage struct {
	InputTokens       int64  `json:"input_tokens"`                  // cached ones among them
	CachedInputTokens int64  `json:"cached_input_tokens,omitempty"` // read from the provider's cache
	OutputTokens      int64  `json:"output_tokens"`                 // reasoning among them
	ReasoningTokens   int64  `json:"reasoning_tokens,omitempty"`
	Images            int64  `json:"images,omitempty"`
	Milliseconds      int64  `json:"milliseconds,omitempty"` // of audio or video, where the API counts those
	Model             string `json:"model,omitempty"`        // that served the call, as the answer says
	Estimated         bool   `json:"estimated,omitempty"`    // counted by us: the answer told no usage
}

// JSON returns the usage as it is stored; nil: there is none.
func (u *Usage) JSON() (json.RawMessage, error) {
	if u == nil {
		return nil, nil
	}
	return json.Marshal(u)
}

// Adapter speaks to one provider.
type Adapter interface {
	// Call sends the request at most once and waits for the answer until ctx ends. It
	// retries nothing, follows no redirect, and always returns an answer: one that is
	// Unknown when ctx ended after a byte was written. It may be used concurrently.
	Call(ctx context.Context, call Call) Answer
}

// Provider is an adapter under the name that requests use, with its defaults.
type Provider struct {
	Name      string
	Model     string // that its adapter asks for; empty: it has none. Prices are per model
	URL       string // that its adapter asks; empty: not known. Certificates are of it
	Adapter   Adapter
	Timeout   time.Duration
	ListenFor time.Duration
	LookUp    *LookUpPolicy   // of a [LookUpper]; nil: it is not asked
	ReAsk     *ReAskPolicy    // of a [ReAsker]; nil: it is not asked again
	Callback  *CallbackPolicy // of a [CallbackReader]; nil: it is not heard
	Limits    Limits
}

// Limits bound what is sent to a provider, by all workers together. Zero: no bound.
type Limits struct {
	Concurrent int     // calls at once
	PerSecond  float64 // calls
}

// Registry holds the providers of a process by name. It does not change once made.
type Registry struct{ byName map[string]Provider }

// NewRegistry returns a registry of the providers; a later one replaces an earlier
// one of the same name.
func NewRegistry(providers ...Provider) *Registry {
	r := &Registry{byName: map[string]Provider{}}
	for _, p := range providers {
		r.byName[p.Name] = p
	}
	return r
}

// With returns a registry that also holds the given providers.
func (r *Registry) With(providers ...Provider) *Registry {
	return NewRegistry(slices.Concat(slices.Collect(maps.Values(r.byName)), providers)...)
}

// Get returns the provider of that name.
func (r *Registry) Get(name string) (Provider, bool) {
	p, ok := r.byName[name]
	return p, ok
}

// Limited returns the providers that have limits, by name.
func (r *Registry) Limited() (limited []Provider) {
	for _, name := range r.Names() {
		if p := r.byName[name]; p.Limits != (Limits{}) {
			limited = append(limited, p)
		}
	}
	return limited
}

// Names returns the names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.byName)) }

// Defaults returns the providers' defaults by name, for a [onejob.Catalog].
func (r *Registry) Defaults() map[string]onejob.ProviderDefaults {
	defaults := map[string]onejob.ProviderDefaults{}
	for name, p := range r.byName {
		defaults[name] = onejob.ProviderDefaults{Timeout: p.Timeout, ListenFor: p.ListenFor, Model: p.Model, Limited: p.Limits != Limits{}, Adapter: p.AdapterVersion()}
	}
	return defaults
}
