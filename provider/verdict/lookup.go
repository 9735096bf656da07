package verdict

import (
	"net/http"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// LookUp judges the answer to the question what became of a call of that age. Succeeded
// and Failed are the call's outcome, as the API reads it from a 2xx. Everything else is
// Unknown: what the API reads as Accepted is in progress, and an answer that fails says
// something about the question only, its reason and its Retry-After.
//
// A call that the provider does not find (404) is Failed once it is older than
// NotFoundAfter. Of one that the provider gave a name, which was there, the age is 0.
func (j Judge) LookUp(r Received, age time.Duration) provider.Answer {
	m, invalid := Read(r.Body, j.Limits.Depth)
	if isSuccess(r.Status) && invalid == nil {
		if answer, ok := j.API.Read(m); ok {
			return j.lookedUp(m, answer)
		}
	}
	switch r.Status {
	case http.StatusNotFound:
		return j.notFound(detail(r, m, ""), age)
	case http.StatusGone: // it was there
		return unknown(onejob.ReasonNotFound, detail(r, m, ""))
	}
	answer := j.verdict(r, m, invalid)
	if answer.Retryable {
		answer.RetryAfter = RetryAfter(r.Header, j.Now())
	}
	answer.Detail = detail(r, m, answer.Detail)
	return Undecided(answer)
}

func (j Judge) lookedUp(m Message, answer provider.Answer) provider.Answer {
	if answer.Usage == nil {
		answer.Usage = j.API.Usage(m)
	}
	if answer.Certainty == provider.Accepted {
		answer.Certainty, answer.Reason = provider.Unknown, onejob.ReasonInProgress
	}
	return answer
}

func (j Judge) notFound(detail string, age time.Duration) provider.Answer {
	if j.NotFoundAfter > 0 && age > j.NotFoundAfter {
		detail += ": the attempt is older than not_found_after " + j.NotFoundAfter.String()
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonNotFound, Retryable: true, Detail: detail}
	}
	return unknown(onejob.ReasonNotFound, detail)
}

// Undecided returns an answer that says something about the exchange only, not about
// the call in question: one that failed leaves the call Unknown.
func Undecided(answer provider.Answer) provider.Answer {
	if answer.Certainty != provider.Succeeded {
		answer.Certainty, answer.Retryable = provider.Unknown, false
	}
	return answer
}

// Failure judges a call of which the provider itself says, by status and not by an
// error of the exchange, that it failed: that is certain, and the error's code says
// whether it may be tried again.
func (c Certain) Failure(m Message) provider.Answer {
	status := m.status()
	answer := failed(onejob.ReasonProviderFailed)
	switch {
	case m.quota():
		answer = failed(onejob.ReasonProviderQuota)
	case !m.billed && (refusals[status] || c.refused(status, m)):
		answer = provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonRefused, Retryable: true}
	case finals[status], c.noEffect(status, m):
		answer = failed(onejob.ReasonRejected)
	}
	answer.Detail = "failed"
	if said := strings.Join(m.Codes, " "); said != "" {
		answer.Detail = said
	}
	if m.prose != "" {
		answer.Detail += ": " + m.prose
	}
	return answer
}
