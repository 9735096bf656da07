package httpjson

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// length says whether a body was within the limit.
type length int

const (
	withinLimit     length = iota
	tooLongDeclared        // nothing of it was read
	tooLongFound
)

// received is what came back from the provider.
type received struct {
	status    int
	header    http.Header
	body      []byte // whole, or nil
	length    length
	cut       onejob.Reason // why the body ended early; empty: it did not
	cutBy     string        // prose
	openEnded bool
}

// judge says what an answer means.
func (a *Adapter) judge(r received) provider.Answer {
	m, err := readMessage(r.body, a.limits.Depth)
	answer := a.verdict(r, m, err)
	answer.Usage = m.usage
	if answer.Certainty == provider.Failed && answer.Retryable {
		answer.RetryAfter = retryAfter(r.header, a.now())
	}
	if answer.Certainty != provider.Succeeded {
		answer.Detail = detail(r, m, answer.Detail)
	}
	return answer
}

func (a *Adapter) verdict(r received, m message, invalid error) provider.Answer {
	switch {
	case r.status == http.StatusAccepted && !m.failed:
		return accepted(r, m, invalid)
	case r.cut != "":
		return unknown(r.cut, r.cutBy)
	case r.length == tooLongFound:
		return unknown(onejob.ReasonTooLarge, a.tooLong())
	case r.length == tooLongDeclared:
		return a.declaredTooLong(r)
	case isSuccess(r.status):
		return a.successful(r, m, invalid)
	}
	return a.byStatus(r.status, m)
}

// successful judges a whole 2xx other than 202.
func (a *Adapter) successful(r received, m message, invalid error) provider.Answer {
	switch {
	case m.failed:
		return a.byStatus(m.status(), m)
	case r.status != http.StatusOK && r.status != http.StatusCreated:
		return unknown(onejob.ReasonUnreadable, "this status carries no result")
	case invalid != nil:
		return unknown(onejob.ReasonUnreadable, invalid.Error())
	case r.openEnded && m.number:
		return unknown(onejob.ReasonUnreadable, "a number that ends with the connection may be cut")
	}
	return provider.Answer{Certainty: provider.Succeeded, Result: r.body}
}

// accepted judges a 202. Whatever became of its body, the request was taken: it never
// fails here, unless the body is an error.
func accepted(r received, m message, invalid error) provider.Answer {
	if reference := referenceOf(r, m); reference != "" {
		return provider.Answer{Certainty: provider.Accepted, Reference: reference}
	}
	switch {
	case r.cut != "":
		return unknown(r.cut, r.cutBy)
	case r.length != withinLimit:
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
func (a *Adapter) byStatus(status int, m message) provider.Answer {
	refused := refusals[status] || a.certain.refused(status, m)
	noEffect := a.certain.noEffect(status, m)
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
func (a *Adapter) declaredTooLong(r received) provider.Answer {
	if isSuccess(r.status) {
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonTooLarge, Detail: a.tooLong()}
	}
	byStatus := a.byStatus(r.status, message{})
	switch {
	case byStatus.Certainty != provider.Failed:
		return byStatus
	case byStatus.Retryable || a.certain.noEffect(r.status, message{}):
		return unknown(onejob.ReasonTooLarge, a.tooLong())
	}
	return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonTooLarge, Detail: a.tooLong()}
}

func (a *Adapter) tooLong() string {
	return fmt.Sprintf("the body is longer than %d bytes", a.limits.ResultBytes)
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

func failed(reason onejob.Reason) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: reason}
}

func unknown(reason onejob.Reason, why string) provider.Answer {
	return provider.Answer{Certainty: provider.Unknown, Reason: reason, Detail: why}
}

// detail tells people what was received and why it means what it means.
func detail(r received, m message, why string) string {
	parts := []string{fmt.Sprintf("status %d", r.status)}
	if r.status >= 300 && r.status < 400 {
		parts = append(parts, "redirects are not followed")
	}
	for _, part := range []string{why, strings.Join(m.codes, " "), m.prose} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}
