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

// Usage is what a provider says it counted. Units are tokens.
type Usage struct {
	InputTokens       int64 `json:"input_tokens"`
	CachedInputTokens int64 `json:"cached_input_tokens,omitempty"`
	OutputTokens      int64 `json:"output_tokens"`
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
	Adapter   Adapter
	Timeout   time.Duration
	ListenFor time.Duration
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

// Names returns the names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.byName)) }

// Defaults returns the providers' defaults by name, for a [onejob.Catalog].
func (r *Registry) Defaults() map[string]onejob.ProviderDefaults {
	defaults := map[string]onejob.ProviderDefaults{}
	for name, p := range r.byName {
		defaults[name] = onejob.ProviderDefaults{Timeout: p.Timeout, ListenFor: p.ListenFor}
	}
	return defaults
}
