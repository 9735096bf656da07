package verdict

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

func TestRetryAfterIsReadWithinReason(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		hint, date string
		want       time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"12", "", 12 * time.Second},
		{" 12 ", "", 12 * time.Second},
		{"-3", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"86401", "", 24 * time.Hour},
		{"99999999999999999999999", "", 24 * time.Hour},
		{at(time.Minute), "", time.Minute},
		{at(-time.Minute), "", 0},
		{at(10000 * time.Hour), "", 24 * time.Hour},
		{at(time.Hour), at(time.Hour - time.Second), time.Second},
		{at(time.Minute), "yesterday", time.Minute},
	} {
		header := http.Header{"Retry-After": {c.hint}, "Date": {c.date}}
		if got := RetryAfter(header, now); got != c.want {
			t.Errorf("Retry-After %q, Date %q: %v, want %v", c.hint, c.date, got, c.want)
		}
	}
}

// bodyIsResult is an API in which every body is a result.
var bodyIsResult = API{
	Read: func(m Message) (provider.Answer, bool) {
		return provider.Answer{Certainty: provider.Succeeded, Result: m.Body}, !m.Failed
	},
	Usage:     func(Message) *provider.Usage { return nil },
	Reference: func(r Received, m Message) string { return FirstReference(m.ID, r.Header.Get("Location")) },
}

// FuzzAnswer feeds the judge what a provider could send.
func FuzzAnswer(f *testing.F) {
	for _, status := range []int{0, 200, 202, 204, 302, 400, 402, 408, 429, 500, 503, 529} {
		f.Add(status, "3", "/r/1", []byte(`{"id":"r","usage":{"input_tokens":1},"error":{"code":"rate_limited"}}`), byte(0))
	}
	f.Add(200, "", "", []byte(`{"a":1,"a":[{"b":"\u00e9"}]}`), byte(0))
	f.Add(200, "", "", []byte(`{"error":null}`), byte(1))
	f.Add(429, "", "", []byte(`{"error":{"code":"insufficient_quota"},"usage":0}`), byte(2))
	j := Judge{Limits: onejob.Limits{}.OrDefault(), Now: time.Now, API: bodyIsResult}
	f.Fuzz(func(t *testing.T, status int, hint, location string, body []byte, end byte) {
		header := http.Header{"Retry-After": {hint}, "Location": {location}}
		r := Received{Status: status, Header: header, Body: body}
		switch end % 4 {
		case 1:
			r.Body, r.Cut = nil, onejob.ReasonConnectionLost
		case 2:
			r.Body, r.Length = nil, TooLongDeclared
		case 3:
			r.Body, r.Length = nil, TooLongFound
		}
		answer := j.Answer(r)
		answer.Detail = provider.Secrets{}.Clean(answer.Detail)
		checkAnswer(t, r, answer)
	})
}

func checkAnswer(t *testing.T, r Received, answer provider.Answer) {
	t.Helper()
	switch answer.Certainty {
	case provider.Succeeded:
		if !json.Valid(answer.Result) || !utf8.Valid(answer.Result) || string(answer.Result) != string(r.Body) {
			t.Errorf("succeeded with %q", answer.Result)
		}
	case provider.Accepted:
		if r.Status != http.StatusAccepted || answer.Reference == "" {
			t.Errorf("accepted with status %d as %q", r.Status, answer.Reference)
		}
	case provider.Failed:
		if !certainStatus[r.Status] && r.Status/100 != 3 && !certainBody(r) {
			t.Errorf("failed with status %d and body %q", r.Status, r.Body)
		}
	case provider.Unknown:
		if answer.Retryable {
			t.Error("unknown and retryable")
		}
	default:
		t.Errorf("certainty %q", answer.Certainty)
	}
	if answer.RetryAfter < 0 || answer.RetryAfter > longestHint || len(answer.Detail) > 4<<10 || !utf8.ValidString(answer.Detail) {
		t.Errorf("answer %+v", answer)
	}
}

// certainStatus repeats the table of docs/design.md, so that a slip in one of the two
// shows.
var certainStatus = map[int]bool{
	400: true, 401: true, 402: true, 403: true, 404: true, 405: true, 413: true, 415: true, 422: true,
	429: true, 503: true, 529: true,
}

// certainBody says that the body makes a failure certain where the status does not: a
// 2xx that announced too much, an error of a certain code in a 2xx, a quota code.
func certainBody(r Received) bool {
	if isSuccess(r.Status) && r.Length == TooLongDeclared {
		return true
	}
	var body map[string]json.RawMessage
	if json.Unmarshal(r.Body, &body) != nil {
		return false
	}
	m, _ := Read(r.Body, 200)
	return m.quota() || isSuccess(r.Status) && m.Failed && certainStatus[m.status()]
}
