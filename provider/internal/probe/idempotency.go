package probe

import (
	"github.com/google/uuid"

	"github.com/onejob/onejob/provider"
)

// Idempotency tries whether the provider honours keys: one call twice under one key, and,
// if the answers are the same, once more under another, because a provider may give the
// same answer to everything. Header is the configured one, empty: none.
func Idempotency(header string, o provider.CheckOptions, call func(provider.Call) provider.Answer) (provider.Finding, *provider.Answer) {
	said := func(v provider.Verdict, format string, args ...any) provider.Finding {
		return Found(provider.FindingIdempotency, v, format, args...)
	}
	switch {
	case !o.Paid && header == "":
		return said(provider.VerdictWarning, "no header is configured: a call whose reply was lost is not sent again"), nil
	case !o.Paid:
		return said(provider.VerdictUnknown, "not tried: that takes paid calls"), nil
	}
	key, job := uuid.NewString(), uuid.NewString()
	under := func(key string) provider.Answer {
		return call(provider.Call{JobID: job, Attempt: 1, Kind: "check", IdempotencyKey: key})
	}
	first := under(key)
	switch {
	case !answered(first):
		return said(provider.VerdictUnknown, "not tried: a call %s (%s): %s", first.Certainty, first.Reason, first.Detail), &first
	case header == "":
		return said(provider.VerdictWarning, "a call succeeded; no header is configured: one whose reply was lost is not sent again"), &first
	}
	again := under(key)
	switch {
	case !answered(again):
		return said(provider.VerdictUnknown, "the second call under the key %s (%s): %s", again.Certainty, again.Reason, again.Detail), &first
	case identity(again) != identity(first):
		return said(provider.VerdictFailed, "two calls under one key got two answers: %s is not honoured, remove idempotency from the configuration", header), &first
	}
	if other := under(uuid.NewString()); answered(other) && identity(other) != identity(first) {
		return said(provider.VerdictOK, "two calls under one key got one answer, a third under another key got its own"), &first
	}
	return said(provider.VerdictUnknown, "calls under different keys get the same answer: it does not tell"), &first
}

func answered(a provider.Answer) bool {
	return a.Certainty == provider.Succeeded || a.Certainty == provider.Accepted
}

func identity(a provider.Answer) string { return a.Reference + "\n" + string(a.Result) }

// NoCall is a question about a call that does not exist.
func NoCall() provider.Question {
	return provider.Question{JobID: uuid.NewString(), Attempt: 1, IdempotencyKey: uuid.NewString(), Reference: "onejob-check"}
}
