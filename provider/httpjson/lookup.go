package httpjson

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

// LookUp says how the provider is asked what became of a call.
type LookUp struct {
	// URL is asked with GET. {ref}, {key}, {job} and {attempt} in it stand for the
	// provider's reference, our idempotency key, job and attempt. A reference that is a
	// Location is asked itself, if it is at the origin of the calls.
	URL string

	// NotFoundAfter is the age from which a call that the provider does not know had no
	// effect. 0: that is never certain.
	NotFoundAfter time.Duration

	// States says which of queued, running, succeeded, failed and cancelled another word
	// in the member status stands for.
	States map[string]string

	Result string // the member with the result of a succeeded call; empty: result
}

// stateWords are what a word of the provider can mean.
var stateWords = []string{"queued", "running", "succeeded", "failed", "cancelled"}

func (l LookUp) check() error {
	for word, state := range l.States {
		if !slices.Contains(stateWords, state) {
			return fmt.Errorf("its look-up says that %q means %q: use one of %s", word, state, strings.Join(stateWords, ", "))
		}
	}
	if l.URL == "" {
		return nil
	}
	return place(l.URL).check("look-up")
}

var _ provider.LookUpper = (*Adapter)(nil)

// CanLookUp implements [provider.LookUpper].
func (a *Adapter) CanLookUp(q provider.Question) bool {
	_, ok := a.questionPlace(q)
	return ok
}

// LookUp implements [provider.LookUpper].
func (a *Adapter) LookUp(ctx context.Context, q provider.Question) provider.Answer {
	at, ok := a.questionPlace(q)
	if !ok {
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonNotSent, Detail: "the provider cannot be asked about this call"}
	}
	ctx, trace := transport.WithTrace(ctx)
	r, err := a.line.Send(a.request(ctx, http.MethodGet, at, q.JobID, q.Attempt))
	if err != nil {
		return a.line.Clean(verdict.Undecided(verdict.Unanswered(ctx, trace.Sent(), err)))
	}
	if q.Reference != "" {
		q.Age = 0 // it was there: not to be found is to be forgotten
	}
	return a.line.Clean(a.lookUps.LookUp(r, q.Age))
}

// questionPlace returns where to ask about the call, if that can be said.
func (a *Adapter) questionPlace(q provider.Question) (*url.URL, bool) {
	if a.lookUpAt == "" {
		return nil, false
	}
	if at, isOne := a.location(q.Reference); isOne {
		return at, at != nil
	}
	text, whole := a.lookUpAt.of(q)
	at, err := url.Parse(text)
	return at, whole && err == nil
}

// states is the API of a look-up: the member status says how far the call is.
type states struct {
	LookUp
	certain verdict.Certain
}

func (s states) api() verdict.API { return verdict.API{Read: s.read, Usage: counts.Read} }

func (s states) read(m verdict.Message) (provider.Answer, bool) {
	word := m.Text("status")
	state := word
	if meant, ok := s.States[word]; ok {
		state = meant
	}
	switch state {
	case "queued", "running":
		return provider.Answer{Certainty: provider.Accepted, Detail: word}, true
	case "succeeded":
		return s.succeeded(m), true
	case "failed":
		return s.certain.Failure(m), true
	case "cancelled":
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonProviderCancelled, Detail: word}, true
	}
	return provider.Answer{}, false
}

func (s states) succeeded(m verdict.Message) provider.Answer {
	result := m.Member(s.resultName())
	if result == nil {
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonUnreadable, Detail: "it succeeded and has no member " + s.resultName()}
	}
	return provider.Answer{Certainty: provider.Succeeded, Result: result}
}

func (l LookUp) resultName() string { return cmp.Or(l.Result, "result") }
