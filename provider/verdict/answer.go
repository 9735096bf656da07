package verdict

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// Answer judges the answer to a call.
func (j Judge) Answer(r Received) provider.Answer {
	m, invalid := Read(r.Body, j.Limits.Depth)
	answer, ok := j.read(r, m, invalid)
	if !ok {
		answer = j.verdict(r, m, invalid)
		answer.Detail = detail(r, m, answer.Detail)
	}
	if answer.Usage == nil && invalid == nil {
		answer.Usage = j.API.Usage(m)
	}
	if answer.Certainty == provider.Failed && answer.Retryable {
		answer.RetryAfter = RetryAfter(r.Header, j.Now())
	}
	return answer
}

// read reads a whole 200 or 201 as the API does.
func (j Judge) read(r Received, m Message, invalid error) (provider.Answer, bool) {
	if !carriesResult(r.Status) || invalid != nil || r.OpenEnded && m.number {
		return provider.Answer{}, false
	}
	return j.API.Read(m)
}

func carriesResult(status int) bool { return status == http.StatusOK || status == http.StatusCreated }

func (j Judge) verdict(r Received, m Message, invalid error) provider.Answer {
	switch {
	case r.Status == http.StatusAccepted && !m.Failed && j.API.Reference != nil:
		return j.accepted(r, m, invalid)
	case r.Cut != "":
		return unknown(r.Cut, r.CutBy)
	case r.Length == TooLongFound:
		return unknown(onejob.ReasonTooLarge, j.tooLong())
	case r.Length == TooLongDeclared:
		return j.declaredTooLong(r)
	case isSuccess(r.Status):
		return j.successful(r, m, invalid)
	}
	return j.byStatus(r.Status, m)
}

// successful judges a whole 2xx other than 202 that is no answer of the API.
func (j Judge) successful(r Received, m Message, invalid error) provider.Answer {
	switch {
	case m.Failed:
		return j.byStatus(m.status(), m)
	case !carriesResult(r.Status):
		return unknown(onejob.ReasonUnreadable, "this status carries no result")
	case invalid != nil:
		return unknown(onejob.ReasonUnreadable, invalid.Error())
	case r.OpenEnded && m.number:
		return unknown(onejob.ReasonUnreadable, "a number that ends with the connection may be cut")
	}
	return unknown(onejob.ReasonUnreadable, "this is no answer of the API")
}

// accepted judges a 202. Whatever became of its body, the request was taken: it never
// fails here, unless the body is an error.
func (j Judge) accepted(r Received, m Message, invalid error) provider.Answer {
	if reference := j.API.Reference(r, m); reference != "" {
		return provider.Answer{Certainty: provider.Accepted, Reference: reference}
	}
	switch {
	case r.Cut != "":
		return unknown(r.Cut, r.CutBy)
	case r.Length != WithinLimit:
		return unknown(onejob.ReasonTooLarge, "neither id nor Location")
	case invalid != nil:
		return unknown(onejob.ReasonUnreadable, "no Location, and "+invalid.Error())
	}
	return unknown(onejob.ReasonUnreadable, "neither id nor Location")
}

// finals are the statuses by which a provider says no for good.
var finals = map[int]bool{400: true, 401: true, 403: true, 404: true, 405: true, 413: true, 415: true, 422: true}

// refusals are the statuses that mean 'not now'; a refusal that bills is none.
var refusals = map[int]bool{429: true, 503: true, 529: true}

// byStatus judges an answer that is no success. The table names every status that is
// certain; all others, 4xx among them, leave open whether there was an effect.
func (j Judge) byStatus(status int, m Message) provider.Answer {
	refused := refusals[status] || j.Certain.refused(status, m)
	noEffect := j.Certain.noEffect(status, m)
	switch {
	case (refused || noEffect) && m.billed:
		return unknown(onejob.ReasonServerError, "it says no and counts usage")
	case status == http.StatusPaymentRequired || m.quota():
		return failed(onejob.ReasonProviderQuota)
	case refused:
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonRefused, Retryable: true}
	case noEffect, finals[status], status >= 300 && status < 400:
		return failed(onejob.ReasonRejected)
	}
	return unknown(onejob.ReasonServerError, "")
}

// declaredTooLong judges an answer whose body was not read, because it announced more
// bytes than the limit. What only the body could tell stays open.
func (j Judge) declaredTooLong(r Received) provider.Answer {
	tooLarge := provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonTooLarge, Detail: j.tooLong()}
	if isSuccess(r.Status) {
		return tooLarge
	}
	byStatus := j.byStatus(r.Status, Message{})
	switch {
	case byStatus.Certainty != provider.Failed:
		return byStatus
	case byStatus.Retryable || j.Certain.noEffect(r.Status, Message{}):
		return unknown(onejob.ReasonTooLarge, j.tooLong())
	}
	return tooLarge
}

func (j Judge) tooLong() string {
	return fmt.Sprintf("the body is longer than %d bytes", j.Limits.ResultBytes)
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

func failed(reason onejob.Reason) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: reason}
}

func unknown(reason onejob.Reason, why string) provider.Answer {
	return provider.Answer{Certainty: provider.Unknown, Reason: reason, Detail: why}
}

// detail tells people what was received and why it means what it means.
func detail(r Received, m Message, why string) string {
	parts := []string{fmt.Sprintf("status %d", r.Status)}
	if r.Status >= 300 && r.Status < 400 {
		parts = append(parts, "redirects are not followed")
	}
	for _, part := range []string{why, strings.Join(m.Codes, " "), m.prose} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}
