package provider

import (
	"strings"
	"unicode/utf8"

	"github.com/onejob/onejob"
)

// MaxReferenceBytes bounds a provider's own name for a call.
const MaxReferenceBytes = 2 << 10

// Checked returns the answer as it may be recorded, whatever the adapter returned: a
// success has a result within the limits, everything else has a reason, an acceptance
// has a reference, the usage is one that a call can have, and the detail is one line within its bound. What an adapter left
// open is Unknown: it may have had an effect.
func (a Answer) Checked(limits onejob.Limits) Answer {
	a.Detail = Secrets{}.Clean(a.Detail)
	a.RetryAfter = max(0, a.RetryAfter)
	a.Usage = a.Usage.checked()
	if !isText(a.Reference, MaxReferenceBytes) {
		a.Reference = ""
	}
	if !isText(string(a.Reason), onejob.MaxOwnerBytes) {
		a.Reason = onejob.ReasonUnspecified
	}
	switch {
	case a.Certainty == Succeeded:
		if err := limits.CheckResult(a.Result); err != nil {
			return a.unknown(onejob.ReasonUnreadable, err.Error())
		}
	case a.Certainty == Accepted && a.Reference != "":
	case a.Certainty == Failed || a.Certainty == Unknown:
		a.Result = nil
		if a.Reason == "" {
			a.Reason = onejob.ReasonUnspecified
		}
	default:
		return a.unknown(onejob.ReasonUnspecified, "the adapter did not say what is certain")
	}
	return a
}

// mostUnits bounds what one call can have used of a unit. More is no count, and its price
// could not be booked.
const mostUnits = 1_000_000_000

// checked returns the usage as it may be booked; one that no call can have had was not told.
func (u *Usage) checked() *Usage {
	if u == nil {
		return nil
	}
	for _, n := range []int64{u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens, u.Images, u.Milliseconds} {
		if n < 0 || n > mostUnits {
			return nil
		}
	}
	checked := *u
	if !isText(checked.Model, onejob.MaxOwnerBytes) {
		checked.Model = ""
	}
	return &checked
}

// unknown returns the answer as one whose call may have had an effect.
func (a Answer) unknown(why onejob.Reason, detail string) Answer {
	a.Certainty, a.Reason, a.Detail, a.Result = Unknown, why, Secrets{}.Clean(detail), nil
	return a
}

func isText(s string, mostBytes int) bool {
	return len(s) <= mostBytes && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}
