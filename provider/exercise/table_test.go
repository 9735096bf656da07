package exercise_test

import (
	"io"
	"net/http"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// reply is an answer on the wire.
type reply struct {
	status int
	header map[string]string
	body   string
}

// ServeHTTP gives the reply.
func (r reply) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body)
	w.Header().Set("Content-Type", "application/json")
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.body)
}

func failed(reason onejob.Reason) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: reason}
}

func unknown(reason onejob.Reason) provider.Answer {
	return provider.Answer{Certainty: provider.Unknown, Reason: reason}
}

func retryable(reason onejob.Reason, after time.Duration) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: reason, Retryable: true, RetryAfter: after}
}

// using is an answer that used three tokens and made four.
func using(a provider.Answer) provider.Answer {
	a.Usage = &provider.Usage{InputTokens: 3, OutputTokens: 4}
	return a
}

// row is a reply, as the vendor spells it, and what it means.
type row struct {
	reply func(subject) reply
	want  provider.Answer
}

func status(status int) func(subject) reply {
	return func(subject) reply { return reply{status: status} }
}

// says is a reply with an error of that code.
func says(status int, code string) func(subject) reply {
	return func(s subject) reply { return reply{status: status, body: s.failure(code)} }
}

// bills is such a reply that also counts usage.
func bills(status int, code string) func(subject) reply {
	return func(s subject) reply { return reply{status: status, body: with(s.usage, s.failure(code))} }
}

func hints(status int, hint string) func(subject) reply {
	return func(s subject) reply {
		return reply{status: status, header: map[string]string{"Retry-After": hint}, body: s.failure("rate_limit_error")}
	}
}

func text(status int, body string) func(subject) reply {
	return func(subject) reply { return reply{status: status, body: body} }
}

// table is the table of docs/design.md, as far as an HTTP answer is concerned.
var table = map[string]row{
	"400":                          {says(400, "invalid_request_error"), failed(onejob.ReasonRejected)},
	"400 with usage":               {bills(400, "invalid_request_error"), using(failed(onejob.ReasonRejected))},
	"400 HTML":                     {text(400, `<html>`), failed(onejob.ReasonRejected)},
	"401":                          {says(401, "authentication_error"), failed(onejob.ReasonRejected)},
	"402":                          {says(402, "billing_error"), failed(onejob.ReasonProviderQuota)},
	"403":                          {says(403, "permission_error"), failed(onejob.ReasonRejected)},
	"404":                          {says(404, "not_found_error"), failed(onejob.ReasonRejected)},
	"405":                          {status(405), failed(onejob.ReasonRejected)},
	"406":                          {status(406), unknown(onejob.ReasonServerError)},
	"408":                          {status(408), unknown(onejob.ReasonServerError)},
	"409":                          {says(409, "conflict_error"), unknown(onejob.ReasonServerError)},
	"413":                          {says(413, "request_too_large"), failed(onejob.ReasonRejected)},
	"415":                          {status(415), failed(onejob.ReasonRejected)},
	"422":                          {says(422, "invalid_request_error"), failed(onejob.ReasonRejected)},
	"425":                          {status(425), unknown(onejob.ReasonServerError)},
	"429":                          {says(429, "rate_limit_error"), retryable(onejob.ReasonRefused, 0)},
	"429 in seconds":               {hints(429, "7"), retryable(onejob.ReasonRefused, 7*time.Second)},
	"429 at a date that is past":   {hints(429, "Wed, 21 Oct 2015 07:28:00 GMT"), retryable(onejob.ReasonRefused, 0)},
	"429 in a century":             {hints(429, "3155760000"), retryable(onejob.ReasonRefused, 24*time.Hour)},
	"429 that says quota":          {says(429, "insufficient_quota"), failed(onejob.ReasonProviderQuota)},
	"429 with usage":               {bills(429, "rate_limit_error"), using(unknown(onejob.ReasonServerError))},
	"500":                          {says(500, "api_error"), unknown(onejob.ReasonServerError)},
	"500 that says quota":          {says(500, "insufficient_quota"), failed(onejob.ReasonProviderQuota)},
	"502":                          {text(502, `<html>`), unknown(onejob.ReasonServerError)},
	"503":                          {text(503, `<html>`), retryable(onejob.ReasonRefused, 0)},
	"503 with usage":               {bills(503, "overloaded_error"), using(unknown(onejob.ReasonServerError))},
	"504":                          {says(504, "timeout_error"), unknown(onejob.ReasonServerError)},
	"529":                          {says(529, "overloaded_error"), retryable(onejob.ReasonRefused, 0)},
	"529 with usage":               {bills(529, "overloaded_error"), using(unknown(onejob.ReasonServerError))},
	"599":                          {status(599), unknown(onejob.ReasonServerError)},
	"error in a 200, rejected":     {says(200, "invalid_request_error"), failed(onejob.ReasonRejected)},
	"error in a 200, no quota":     {says(200, "insufficient_quota"), failed(onejob.ReasonProviderQuota)},
	"error in a 200, busy":         {says(200, "overloaded_error"), retryable(onejob.ReasonRefused, 0)},
	"error in a 200, busy, billed": {bills(200, "overloaded_error"), using(unknown(onejob.ReasonServerError))},
	"error in a 200, theirs":       {says(200, "api_error"), unknown(onejob.ReasonServerError)},
	"error in a 200, not known":    {says(200, "brand_new_error"), unknown(onejob.ReasonServerError)},
	"204":                          {status(204), unknown(onejob.ReasonUnreadable)},
	"206":                          {text(206, `{}`), unknown(onejob.ReasonUnreadable)},
	"200 HTML":                     {text(200, `<html>`), unknown(onejob.ReasonUnreadable)},
	"200 without a body":           {status(200), unknown(onejob.ReasonUnreadable)},
	"200 that ends early":          {func(s subject) reply { return reply{status: 200, body: s.reply[:len(s.reply)/2]} }, unknown(onejob.ReasonUnreadable)},
	"200 with two answers":         {func(s subject) reply { return reply{status: 200, body: s.reply + s.reply} }, unknown(onejob.ReasonUnreadable)},
	"301":                          {redirect(301), failed(onejob.ReasonRejected)},
	"302":                          {redirect(302), failed(onejob.ReasonRejected)},
	"307":                          {redirect(307), failed(onejob.ReasonRejected)},
	"308":                          {redirect(308), failed(onejob.ReasonRejected)},
	"307 to nowhere":               {nowhere, failed(onejob.ReasonRejected)},
	"409 that is declared certain": {says(409, "E-CONFLICT"), failed(onejob.ReasonRejected)},
	"500 that is declared busy":    {says(500, "E-BUSY"), retryable(onejob.ReasonRefused, 0)},
	"504 that is declared busy":    {says(504, "E-BUSY"), unknown(onejob.ReasonServerError)},
}

var declared = verdict.Certain{NoEffectCodes: []string{"E-CONFLICT"}, RefusedCodes: []string{"E-BUSY"}}

func redirect(status int) func(subject) reply {
	return func(subject) reply {
		return reply{status: status, header: map[string]string{"Location": "/elsewhere"}}
	}
}

func nowhere(subject) reply {
	return reply{status: 307, header: map[string]string{"Location": "http://[::1"}}
}
