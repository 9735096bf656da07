package verdict

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// Cancel judges the answer to a cancel. What the API reads in a 2xx decides; without a
// word about the call a 200 or 204 agrees, and a 202 only promises to try. Done are the
// statuses by which the API says that the call is over already, beside 409 and 410.
func (j Judge) Cancel(r Received, done ...int) provider.Cancellation {
	answer := j.LookUp(r, 0)
	said := func(v provider.CancelVerdict) provider.Cancellation {
		return provider.Cancellation{Verdict: v, Detail: fmt.Sprintf("status %d: %s", r.Status, answer.Detail)}
	}
	switch {
	case answer.Certainty == provider.Succeeded:
		return provider.Cancellation{Verdict: provider.CancelRefused, Detail: "it has succeeded"}
	case answer.Certainty == provider.Failed && answer.Reason == onejob.ReasonProviderCancelled:
		return said(provider.CancelAgreed)
	case answer.Certainty == provider.Failed:
		return said(provider.CancelRefused)
	case answer.Reason == onejob.ReasonUnreadable && j.saysNothing(r):
		return provider.Cancellation{Verdict: provider.CancelAgreed, Detail: fmt.Sprintf("status %d", r.Status)}
	case r.Status == http.StatusConflict, r.Status == http.StatusGone, slices.Contains(done, r.Status):
		return said(provider.CancelRefused)
	}
	return said(provider.CancelUnsure)
}

// saysNothing says that an answer is whole, and empty or JSON without a word about the
// call.
func (j Judge) saysNothing(r Received) bool {
	if r.Status != http.StatusOK && r.Status != http.StatusNoContent {
		return false
	}
	if len(r.Body) == 0 {
		return r.Cut == "" && r.Length == WithinLimit
	}
	m, err := Read(r.Body, j.Limits.Depth)
	return err == nil && !m.Failed && m.Member("status") == nil
}
