package exercise_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/openai"
)

// background is what a background response became, by edits of a recorded response.
var background = map[string]struct {
	edits []string
	want  provider.Answer
}{
	"completed":   {nil, succeeded("gpt-5.2-2025-12-11")},
	"queued":      {[]string{`"completed",`, `"queued",`, `"usage": {`, `"usage": null, "x": {`}, unknown(onejob.ReasonInProgress)},
	"in progress": {[]string{`"completed",`, `"in_progress",`, `"usage": {`, `"usage": null, "x": {`}, unknown(onejob.ReasonInProgress)},
	"failed":      {[]string{`"completed",`, `"failed",`, `"error": null`, `"error": {"code": "server_error", "message": "no"}`}, billed(failed(onejob.ReasonProviderFailed))},
	"incomplete":  {[]string{`"completed",`, `"incomplete",`}, billed(failed(violation))},
	"cancelled":   {[]string{`"completed",`, `"cancelled",`}, billed(failed(onejob.ReasonProviderCancelled))},
}

func billed(a provider.Answer) provider.Answer {
	a.Usage = succeeded("gpt-5.2-2025-12-11").Usage
	return a
}

func TestBackgroundResponseIsLookedUpByItsID(t *testing.T) {
	t.Parallel()
	for name, c := range background {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := edited(t, recorded("response.json"), c.edits)
			server, requests := listening(t, reply{status: 200, body: body})
			got := subjects["openai responses in the background"].mustOpen(t, settings{url: server.URL}).LookUp(t.Context(), question)
			if c.want.Reason == onejob.ReasonInProgress {
				c.want.Reference = "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b"
			}
			mustBe(t, got, c.want)
			if got.Result != nil && string(got.Result) != body {
				t.Errorf("result %s", got.Result)
			}
			if r := <-requests; r.method != http.MethodGet || r.uri != "/v1/responses/r-1" || r.header.Get("Onejob-Attempt") != "2" {
				t.Errorf("%s %s with %v", r.method, r.uri, r.header)
			}
		})
	}
}

// batched answers as the provider of a batch does: first how far it is, then its results.
func batched(t *testing.T, edits []string, results reply) (string, *[]string) {
	t.Helper()
	batch := edited(t, recorded("batch.json"), edits)
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/messages/batches/{id}", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		reply{status: 200, body: batch}.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /v1/messages/batches/{id}/results", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		results.ServeHTTP(w, r)
	})
	server := newServer(t, mux)
	return server, &asked
}

var over = []string{`"in_progress"`, `"ended"`, `"processing": 1`, `"processing": 0`}

func resultLine(result string) reply {
	compact := strings.Join(strings.Fields(result), " ") // a line is one
	return reply{
		status: 200, header: map[string]string{"Content-Type": "application/x-jsonl"},
		body: `{"custom_id":"another","result":{"type":"expired"}}` + "\n" + `{"custom_id":"` + call.JobID + `-2","result":` + compact + `}` + "\n",
	}
}

// batchResults are what became of the message in a batch.
var batchResults = map[string]struct {
	result reply
	want   provider.Answer
}{
	"succeeded":         {resultLine(`{"type":"succeeded","message":` + recorded("message.json") + `}`), succeeded("claude-opus-5-20260801")},
	"refused":           {resultLine(`{"type":"succeeded","message":` + strings.Replace(recorded("message.json"), "end_turn", "refusal", 1) + `}`), billedMessage(failed(violation))},
	"errored, rejected": {resultLine(`{"type":"errored","error":` + anthropicFailure("invalid_request_error") + `}`), failed(onejob.ReasonRejected)},
	"errored, theirs":   {resultLine(`{"type":"errored","error":` + anthropicFailure("api_error") + `}`), retryable(onejob.ReasonProviderFailed, 0)},
	"errored, busy":     {resultLine(`{"type":"errored","error":` + anthropicFailure("overloaded_error") + `}`), retryable(onejob.ReasonRefused, 0)},
	"errored, broke":    {resultLine(`{"type":"errored","error":` + anthropicFailure("billing_error") + `}`), failed(onejob.ReasonProviderQuota)},
	"canceled":          {resultLine(`{"type":"canceled"}`), failed(onejob.ReasonProviderCancelled)},
	"expired":           {resultLine(`{"type":"expired"}`), retryable(onejob.ReasonProviderFailed, 0)},
	"of a new type":     {resultLine(`{"type":"brand_new"}`), unknown(onejob.ReasonUnreadable)},
	"another's":         {reply{status: 200, body: `{"custom_id":"another","result":{"type":"expired"}}`}, unknown(onejob.ReasonUnreadable)},
	"empty":             {reply{status: 200}, unknown(onejob.ReasonUnreadable)},
	"gone":              {reply{status: 404, body: anthropicFailure("not_found_error")}, unknown(onejob.ReasonNotFound)},
	"429":               {reply{status: 429, header: map[string]string{"Retry-After": "3"}}, later(unknown(onejob.ReasonRefused), 3*time.Second)},
	"500":               {reply{status: 500}, unknown(onejob.ReasonServerError)},
}

func billedMessage(a provider.Answer) provider.Answer {
	a.Usage = succeeded("claude-opus-5-20260801").Usage
	return a
}

func later(a provider.Answer, after time.Duration) provider.Answer {
	a.RetryAfter = after
	return a
}

func TestBatchThatEndedIsItsResult(t *testing.T) {
	t.Parallel()
	for name, c := range batchResults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := batched(t, over, c.result)
			s := subject{open: openAnthropic(anthropic.Config{API: anthropic.Batch, NotFoundAfter: time.Second})}
			q := question
			q.Age = 24 * time.Hour // a result that is gone is not a call without effect
			mustBe(t, s.mustOpen(t, settings{url: url}).LookUp(t.Context(), q), c.want)
			if got := strings.Join(*asked, " "); got != "/v1/messages/batches/r-1 /v1/messages/batches/r-1/results" {
				t.Errorf("asked %s", got)
			}
		})
	}
}

func TestBatchThatHasNotEndedIsInProgress(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"in_progress", "canceling"} {
		url, asked := batched(t, []string{"in_progress", status}, reply{status: 200})
		got := subjects["anthropic batch"].mustOpen(t, settings{url: url}).LookUp(t.Context(), question)
		want := unknown(onejob.ReasonInProgress)
		want.Reference = "msgbatch_013Zva2CMHLNnXjNJJKqJ2EF"
		mustBe(t, got, want)
		if len(*asked) != 1 {
			t.Errorf("asked %v", *asked)
		}
	}
}

// asking are the adapters that can be asked by a reference.
var asking = []string{"openai responses", "openai responses in the background", "anthropic batch"}

func TestLookUpThatGoesWrongLeavesTheCallUnknown(t *testing.T) {
	t.Parallel()
	for _, name := range asking {
		s := subjects[name]
		for what, row := range map[string]row{
			"401":         {says(401, "authentication_error"), unknown(onejob.ReasonRejected)},
			"404":         {says(404, "not_found_error"), unknown(onejob.ReasonNotFound)},
			"429":         {hints(429, "7"), later(unknown(onejob.ReasonRefused), 7*time.Second)},
			"500":         {says(500, "api_error"), unknown(onejob.ReasonServerError)},
			"302":         {redirect(302), unknown(onejob.ReasonRejected)},
			"HTML":        {text(200, `<html>`), unknown(onejob.ReasonUnreadable)},
			"error":       {says(200, "invalid_request_error"), unknown(onejob.ReasonRejected)},
			"another API": {text(200, runReply), unknown(onejob.ReasonUnreadable)},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				server, _ := listening(t, row.reply(s))
				mustBe(t, s.mustOpen(t, settings{url: server.URL}).LookUp(t.Context(), question), row.want)
			})
		}
		mustBe(t, s.mustOpen(t, settings{url: "http://" + closedAddress}).LookUp(t.Context(), question), unknown(onejob.ReasonNotSent))
	}
}

func TestVendorThatForgetsIsCertainOnlyWhereConfigured(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(settings) (adapterUnderTest, error){
		"openai":    openOpenAI(openai.Config{API: openai.Responses, NotFoundAfter: time.Minute}),
		"anthropic": openAnthropic(anthropic.Config{API: anthropic.Batch, NotFoundAfter: time.Minute}),
	} {
		server, _ := listening(t, reply{status: 404})
		adapter := subject{open: open}.mustOpen(t, settings{url: server.URL})
		q := question
		q.Age = time.Minute + 1
		if got := adapter.LookUp(t.Context(), q); got.Certainty != provider.Failed || got.Reason != onejob.ReasonNotFound || !got.Retryable {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCallWithoutAReferenceCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		adapter := s.mustOpen(t, settings{url: "http://" + closedAddress})
		nameless := question
		nameless.Reference = ""
		if adapter.CanLookUp(nameless) || adapter.LookUp(t.Context(), nameless).Certainty != provider.Unknown || adapter.Cancel(t.Context(), nameless).Verdict != provider.CancelUnasked {
			t.Errorf("%s is asked about a call without a name", name)
		}
	}
}

// cancels are what a vendor says to a cancel.
var cancels = map[string]map[string]struct {
	reply reply
	want  provider.CancelVerdict
}{
	"openai responses in the background": {
		"cancelled":   {reply{status: 200, body: `{"id":"r-1","object":"response","status":"cancelled"}`}, provider.CancelAgreed},
		"completed":   {reply{status: 200, body: recorded("response.json")}, provider.CancelRefused},
		"in progress": {reply{status: 200, body: `{"id":"r-1","object":"response","status":"in_progress"}`}, provider.CancelUnsure},
		"too late":    {reply{status: 400, body: openaiFailure("invalid_request_error")}, provider.CancelRefused},
		"not found":   {reply{status: 404, body: openaiFailure("invalid_request_error")}, provider.CancelUnsure},
		"500":         {reply{status: 500}, provider.CancelUnsure},
	},
	"anthropic batch": {
		"canceling":        {reply{status: 200, body: strings.Replace(recorded("batch.json"), "in_progress", "canceling", 1)}, provider.CancelUnsure},
		"ended, canceled":  {reply{status: 200, body: strings.NewReplacer("in_progress", "ended", `"canceled": 0`, `"canceled": 1`).Replace(recorded("batch.json"))}, provider.CancelAgreed},
		"ended, succeeded": {reply{status: 200, body: strings.NewReplacer("in_progress", "ended", `"succeeded": 0`, `"succeeded": 1`).Replace(recorded("batch.json"))}, provider.CancelRefused},
		"too late":         {reply{status: 400, body: anthropicFailure("invalid_request_error")}, provider.CancelRefused},
		"not found":        {reply{status: 404, body: anthropicFailure("not_found_error")}, provider.CancelUnsure},
		"500":              {reply{status: 500}, provider.CancelUnsure},
	},
}

func TestCancelOfAVendorSaysWhatItSaid(t *testing.T) {
	t.Parallel()
	for name, all := range cancels {
		for what, c := range all {
			t.Run(name+"/"+what, func(t *testing.T) {
				t.Parallel()
				server, requests := listening(t, c.reply)
				if got := subjects[name].mustOpen(t, settings{url: server.URL}).Cancel(t.Context(), question); got.Verdict != c.want || got.Detail == "" {
					t.Errorf("%+v, want %s", got, c.want)
				}
				if r := <-requests; r.method != http.MethodPost || !strings.HasSuffix(r.uri, "/r-1/cancel") {
					t.Errorf("%s %s", r.method, r.uri)
				}
			})
		}
	}
}

// A reference is a name, not a path.
func TestReferenceStaysWithinItsPlace(t *testing.T) {
	t.Parallel()
	for _, name := range asking {
		server, requests := listening(t, reply{status: 404})
		adapter := subjects[name].mustOpen(t, settings{url: server.URL})
		for _, reference := range []string{"../models", "a/b", "a?b", ".."} {
			q := question
			q.Reference = reference
			adapter.LookUp(t.Context(), q)
			if len(requests) == 0 {
				continue // the SDK refuses it
			}
			if r := <-requests; strings.Contains(r.uri+"/", "/../") || strings.Contains(r.uri, "?b") || strings.HasSuffix(r.uri, "a/b") {
				t.Errorf("%s asks about %q at %s", name, reference, r.uri)
			}
		}
	}
}
