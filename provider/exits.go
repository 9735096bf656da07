package provider

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// An attempt whose outcome is unknown can be asked about, asked again, or given up at
// its provider, where the provider has a way for it. An adapter implements what its
// provider can do; the policies of [Provider] say when and how often it is done.

// Question names a call whose outcome is not known, to the provider that may have it.
type Question struct {
	JobID          string
	Attempt        int
	IdempotencyKey string        // the attempt's
	Reference      string        // the provider's own name for the call; empty: it gave none
	Age            time.Duration // of the attempt, by the database's clock
}

// LookUpper is an [Adapter] whose provider can be asked what became of a call.
type LookUpper interface {
	// CanLookUp says whether the question can be put: some providers know a call only by
	// their own reference.
	CanLookUp(q Question) bool

	// LookUp asks once. Succeeded and Failed are the call's outcome. Everything else
	// leaves it Unknown: a call that is in progress, one that the provider does not find
	// (unless its configuration says after what age that is certain, and the provider never
	// gave the call a name: then it is Failed, [onejob.ReasonNotFound]), and a look-up that itself went wrong, whose RetryAfter says
	// when to ask again at the earliest.
	LookUp(ctx context.Context, q Question) Answer
}

// ReAsker is an [Adapter] whose provider honours idempotency keys: the same bytes under
// the same key are the same call.
type ReAsker interface {
	// Body returns the bytes that Call sends for the call, as they are kept for a re-ask.
	Body(call Call) ([]byte, error)

	// ReAsk sends the kept bytes, call.Body, under the same key. Succeeded is the call's
	// outcome. A no that does not depend on the bytes (credentials, quota, a busy
	// provider, nothing sent) says nothing about the first request: it is Unknown.
	// Accepted tells the name by which the call can be looked up.
	ReAsk(ctx context.Context, call Call) Answer
}

// Canceller is an [Adapter] whose provider can be asked to give a call up.
type Canceller interface {
	// Cancel asks once.
	Cancel(ctx context.Context, q Question) Cancellation
}

// Cancellation is what a provider said to a cancel.
type Cancellation struct {
	Verdict CancelVerdict
	Detail  string // one line of prose for people, without secrets
}

// Destined is an [Adapter] whose calls go to one place under one account.
type Destined interface {
	// Destination is the same as long as a provider-side key, or the absence of a call,
	// means the same: a digest of the address, the account and how keys are sent.
	Destination() string
}

// CancelVerdict is whether a provider gave a call up.
type CancelVerdict string

// The verdicts.
const (
	CancelAgreed  CancelVerdict = "agreed"  // it will have no effect any more
	CancelRefused CancelVerdict = "refused" // it is done already: look it up
	CancelUnsure  CancelVerdict = "unsure"  // no answer, or one that does not say
	CancelUnasked CancelVerdict = ""        // there is no way to ask about this call
)

// LookUpPolicy is how often a provider is asked. Both are set.
type LookUpPolicy struct {
	Interval    time.Duration // before the first look-up; doubles with each
	MaxInterval time.Duration
}

// ReAskPolicy is how often a call is asked again. Both are set.
type ReAskPolicy struct {
	Window time.Duration // since the attempt started; then the provider forgets its key
	Most   int           // re-asks of an attempt
}

// CallbackReader is an [Adapter] whose provider calls back with the outcome.
type CallbackReader interface {
	// ReadCallback judges the body of a callback whose signature holds, as LookUp judges
	// an answer.
	ReadCallback(body []byte) Answer
}

// CallbackPolicy is how a provider's callbacks are known to be its own.
type CallbackPolicy struct {
	Secrets []string // of Standard Webhooks, whsec_…; one of them signed
}

// CallbackPath is where the callback of an attempt is received, below the base URL that
// providers can reach. It names the attempt, so that a callback that is faster than the
// provider's own reference still finds it, and holds a token of it, made with the secret:
// what was signed for one attempt is no word about another.
func CallbackPath(provider, jobID string, attempt int, secret string) string {
	return "/v1/callbacks/" + url.PathEscape(provider) + "/" + jobID + "/" + strconv.Itoa(attempt) + "/" + CallbackToken(provider, jobID, attempt, secret)
}

// CallbackToken is the last part of [CallbackPath].
func CallbackToken(provider, jobID string, attempt int, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%q %q %d", provider, jobID, attempt)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
