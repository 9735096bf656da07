package provider

import "context"

// Checker is an [Adapter] that can try whether its provider is as the configuration says.
type Checker interface {
	// Check asks the provider and returns a finding for each of the names below, in their
	// order. It has no effect at the provider and costs nothing, unless o says so.
	Check(ctx context.Context, o CheckOptions) []Finding
}

// CheckOptions say how far a check may go.
type CheckOptions struct {
	Paid bool // make real calls, up to three, to try what only they can show
}

// Finding is one thing that a check found.
type Finding struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"` // one line of prose for people, without secrets
}

// Verdict is how a finding turned out.
type Verdict string

// The verdicts.
const (
	VerdictOK      Verdict = "ok"
	VerdictWarning Verdict = "warning" // it works, and something is missing
	VerdictFailed  Verdict = "failed"  // it does not work as the configuration says
	VerdictUnknown Verdict = "unknown" // it was not tried, or what came back does not say
)

// The names of findings.
const (
	FindingReachable   = "reachable"   // an answer came
	FindingCredentials = "credentials" // they are accepted
	FindingModel       = "model"       // the provider knows it
	FindingClock       = "clock"       // ours and the provider's agree
	FindingIdempotency = "idempotency" // the provider honours keys: tried, not believed
	FindingLookUp      = "lookup"      // the provider can be asked about a call
	FindingCancel      = "cancel"      // the provider can be asked to give a call up
)
