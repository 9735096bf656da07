// Package verdict says what an answer of a provider means. Every adapter that speaks
// HTTP has its answers judged here.
//
// It promises the table of docs/design.md, 'What a provider's answer means': an answer
// is judged by its status, the codes in its body and how its body ended, never by
// prose, and by what its adapter knows of the API ([API]). It is the authority on
// which failures are certain: [Judge.Answer] for a call, [Judge.LookUp] for a question
// about one, [Judge.ReAsk] for a call that is sent again. It returns no errors; what
// went wrong is in the answer. It imports the domain and provider.
package verdict

import (
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// Judge judges the answers of one provider. Limits, Now and API are set.
type Judge struct {
	Limits  onejob.Limits // with their defaults
	Certain Certain
	Now     func() time.Time
	API     API

	// NotFoundAfter is the age from which a call that a look-up does not find is one that
	// had no effect. 0: that is never certain.
	NotFoundAfter time.Duration
}

// API is what differs between the APIs of providers.
type API struct {
	// Read says what a whole 200 or 201 with a JSON body means. It returns false for one
	// that it does not recognise as an answer of its API: then an error object counts by
	// its code, and anything else is unreadable. A detail that it gives begins with the
	// bare code of what it says, the usage is added to its answer.
	Read func(Message) (answer provider.Answer, ok bool)

	// Usage returns the counts in a body, nil if it has none.
	Usage func(Message) *provider.Usage

	// Reference returns the provider's own name for a call that it took with a 202. Nil:
	// the API has no 202.
	Reference func(Received, Message) string
}

// Certain declares what the provider's documentation promises beyond the common
// meaning of its answers.
type Certain struct {
	NoEffect      []int    // statuses that are a final no
	Refused       []int    // statuses that mean 'not now' without any effect
	NoEffectCodes []string // the same by the error's code
	RefusedCodes  []string
}
