package activities

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// ExitsInput names an unknown attempt.
type ExitsInput struct {
	JobID  string `json:"job_id"`
	Number int    `json:"number"`
}

// Exits are the ways out of unknown that an attempt has, beside its late answer and what
// an operator decides.
type Exits struct {
	LookUp      bool            `json:"look_up,omitempty"`  // the provider can be asked
	ReAsk       bool            `json:"re_ask,omitempty"`   // the provider honours the key, and what was sent is kept
	Callback    bool            `json:"callback,omitempty"` // the provider may call
	Interval    onejob.Duration `json:"interval,omitzero"`  // before the first look-up or re-ask
	MaxInterval onejob.Duration `json:"max_interval,omitzero"`
}

// Exits returns the ways out that the attempt has now. It fails with NotFound.
func (a *Activities) Exits(ctx context.Context, in ExitsInput) (Exits, error) {
	sought, err := a.Store.SoughtAttempt(ctx, in.JobID, in.Number)
	if err != nil {
		return Exits{}, TemporalError(err)
	}
	exits := a.exitsOf(in.JobID, sought)
	a.Logger.Info("an attempt is unknown", "job_id", in.JobID, "attempt", in.Number, "provider", sought.Provider, "reason", sought.Reason,
		"age", sought.Age.Truncate(time.Second), "look_up", exits.LookUp, "re_ask", exits.ReAsk, "callback", exits.Callback)
	return exits, nil
}

func (a *Activities) exitsOf(jobID string, sought postgres.Sought) Exits {
	p, ok := a.Providers.Get(sought.Provider)
	if !ok {
		return Exits{}
	}
	var exits Exits
	if looker, policy := lookUpper(p); policy != nil && looker.CanLookUp(question(p, jobID, sought)) {
		exits.LookUp, exits.Interval, exits.MaxInterval = true, onejob.Duration(policy.Interval), onejob.Duration(policy.MaxInterval)
	}
	if _, policy := reAsker(p); policy != nil && mayReAsk(p, sought) {
		exits.ReAsk = true
		if !exits.LookUp {
			exits.Interval, exits.MaxInterval = onejob.Duration(firstReAsk), onejob.Duration(longestReAsk)
		}
	}
	exits.Callback = a.callbackURL(p, jobID, sought.Number) != ""
	return exits
}

// callbackURL is where the provider may tell the outcome; empty: nowhere.
func (a *Activities) callbackURL(p provider.Provider, jobID string, attempt int) string {
	if _, reads := p.Adapter.(provider.CallbackReader); !reads || p.Callback == nil || len(p.Callback.Secrets) == 0 || a.Callbacks == "" {
		return ""
	}
	return strings.TrimSuffix(a.Callbacks, "/") + provider.CallbackPath(p.Name, jobID, attempt, p.Callback.Secrets[0])
}

const (
	firstReAsk   = time.Second
	longestReAsk = time.Minute
)

// lookUpper returns nil for the policy if the provider is not to be asked.
func lookUpper(p provider.Provider) (provider.LookUpper, *provider.LookUpPolicy) {
	looker, ok := p.Adapter.(provider.LookUpper)
	if !ok || p.LookUp == nil {
		return nil, nil
	}
	return looker, p.LookUp
}

// reAsker returns nil for the policy if the provider is not to be asked again.
func reAsker(p provider.Provider) (provider.ReAsker, *provider.ReAskPolicy) {
	again, ok := p.Adapter.(provider.ReAsker)
	if !ok || p.ReAsk == nil {
		return nil, nil
	}
	return again, p.ReAsk
}

func mayReAsk(p provider.Provider, a postgres.Sought) bool {
	return a.Kept && a.ReAsks < p.ReAsk.Most && a.Age < p.ReAsk.Window && a.SentTo == destination(p)
}

// destination says where the provider's calls go; empty: it does not tell.
func destination(p provider.Provider) string {
	if d, ok := p.Adapter.(provider.Destined); ok {
		return d.Destination()
	}
	return ""
}

// question is how the provider is asked about the attempt. At another place than the call
// went to, its absence says nothing, however old it is.
func question(p provider.Provider, jobID string, a postgres.Sought) provider.Question {
	q := provider.Question{
		JobID: jobID, Attempt: a.Number, IdempotencyKey: idempotencyKey(jobID, a.Number), Reference: a.Reference, Age: a.Age,
	}
	if a.SentTo != destination(p) {
		q.Age = 0
	}
	return q
}

// requestToKeep returns what keeps the bytes of a call that may be asked again. Of a call
// that the adapter will refuse to send there are none.
func (e *execution) requestToKeep() func(kind string, input json.RawMessage) []byte {
	again, policy := reAsker(e.provider)
	if policy == nil {
		return nil
	}
	return func(kind string, input json.RawMessage) (body []byte) {
		var panicked provider.Answer
		defer e.recoverAdapter(e.in.JobID, e.in.Number, &panicked)
		asked, err := e.asked(kind, input)
		if err != nil {
			return nil
		}
		body, err = again.Body(provider.Call{
			JobID: e.in.JobID, Attempt: e.in.Number, Kind: kind, Input: asked, IdempotencyKey: idempotencyKey(e.in.JobID, e.in.Number),
		})
		if err != nil {
			return nil
		}
		return body
	}
}
