package wire

import (
	"encoding/json"

	"github.com/onejob/onejob"
)

// Submission is the body of a submit: the full request without owner and key.
type Submission struct {
	Kind        string            `json:"kind" doc:"One that the configuration names." example:"ticket"`
	Provider    string            `json:"provider" doc:"The primary one." example:"primary"`
	Fallbacks   []string          `json:"fallbacks,omitempty" doc:"Further providers, in order of preference." example:"[\"fallback\"]"`
	Input       json.RawMessage   `json:"input" doc:"Any JSON value; stored as it is written."`
	Timeout     onejob.Duration   `json:"timeout,omitzero" doc:"Silence of this length makes an attempt unknown, as Go writes it. Default: the provider's." example:"10s"`
	ListenFor   onejob.Duration   `json:"listen_for,omitzero" doc:"Listening for a late answer ends here. Default: the provider's." example:"10m0s"`
	MaxAttempts int               `json:"max_attempts,omitempty" doc:"Over the whole job. Default 3." minimum:"1" maximum:"100"`
	HedgeAfter  onejob.Duration   `json:"hedge_after,omitzero" doc:"Silence of this length starts a second attempt. Default: never." example:"5s"`
	CallbackURL string            `json:"callback_url,omitempty" doc:"Told of the job's end by a signed webhook."`
	Labels      map[string]string `json:"labels,omitempty" doc:"To find the job by." example:"{\"team\": \"support\"}"`
}

// Request returns the request under the owner's key.
func (s Submission) Request(owner, key string) onejob.Request {
	return onejob.Request{
		Owner: owner, Key: key, Kind: s.Kind, Provider: s.Provider, Fallbacks: s.Fallbacks, Input: s.Input, Timeout: s.Timeout,
		ListenFor: s.ListenFor, MaxAttempts: s.MaxAttempts, HedgeAfter: s.HedgeAfter, CallbackURL: s.CallbackURL, Labels: s.Labels,
	}
}

// Decode reads a body into v, and refuses what v does not know, with an
// [onejob.ErrInvalidRequest].
func Decode(body []byte, v any) error { return onejob.DecodeStrict("the body", body, v) }
