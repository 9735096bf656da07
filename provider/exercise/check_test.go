package exercise_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/openai"
)

// found returns the verdicts by the names of the findings.
func found(t *testing.T, findings []provider.Finding) map[string]provider.Verdict {
	t.Helper()
	verdicts := map[string]provider.Verdict{}
	for _, f := range findings {
		verdicts[f.Name] = f.Verdict
		if f.Detail == "" || strings.Contains(f.Detail, "correct-horse") {
			t.Errorf("%s: detail %q", f.Name, f.Detail)
		}
	}
	if len(verdicts) != 7 || len(findings) != 7 {
		t.Errorf("findings %+v", findings)
	}
	return verdicts
}

// checkable are adapters whose providers can be asked for everything.
var checkable = map[string]func(settings) (adapterUnderTest, error){
	"http": func(s settings) (adapterUnderTest, error) {
		return httpjson.New(httpjson.Config{
			Name: "p", URL: s.url + "/run", IdempotencyHeader: s.key,
			LookUp: httpjson.LookUp{URL: s.url + "/run/{ref}"}, Cancel: httpjson.Cancel{URL: s.url + "/run/{ref}/cancel"},
		})
	},
	"openai":    openOpenAI(openai.Config{API: openai.Responses, Background: true}),
	"anthropic": openAnthropic(anthropic.Config{API: anthropic.Batch}),
}

// well is a provider that is as configured: it knows the model and nothing else.
func well(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodHead, strings.HasSuffix(r.URL.Path, "/models/gpt-5.2"), strings.HasSuffix(r.URL.Path, "/models/claude-opus-5"):
		reply{status: 200, body: `{}`}.ServeHTTP(w, r)
	default:
		reply{status: 404, body: openaiFailure("not_found_error")}.ServeHTTP(w, r)
	}
}

func TestCheckOfAProviderThatIsWellFindsNothing(t *testing.T) {
	t.Parallel()
	for name, open := range checkable {
		adapter := subject{open: open}.mustOpen(t, settings{url: newServer(t, http.HandlerFunc(well))})
		got := found(t, adapter.(provider.Checker).Check(t.Context(), provider.CheckOptions{}))
		want := map[string]provider.Verdict{
			"reachable": provider.VerdictOK, "credentials": provider.VerdictOK, "model": provider.VerdictOK, "clock": provider.VerdictOK,
			"idempotency": provider.VerdictWarning, "lookup": provider.VerdictOK, "cancel": provider.VerdictOK,
		}
		if name == "http" {
			want["model"] = provider.VerdictUnknown
		}
		for finding, verdict := range want {
			if got[finding] != verdict {
				t.Errorf("%s: %s is %s, want %s", name, finding, got[finding], verdict)
			}
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, open := range checkable {
		for what, c := range map[string]struct {
			handler reply
			finding string
			want    provider.Verdict
		}{
			"credentials refused":       {reply{status: 401}, "credentials", provider.VerdictFailed},
			"credentials forbidden":     {reply{status: 403}, "credentials", provider.VerdictFailed},
			"nothing of the API":        {reply{status: 404, body: `<html>`}, "credentials", provider.VerdictUnknown},
			"a clock that is behind":    {reply{status: 404, header: map[string]string{"Date": time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)}}, "clock", provider.VerdictWarning},
			"a clock that is not there": {reply{status: 404, header: map[string]string{"Date": "yesterday"}}, "clock", provider.VerdictUnknown},
			"no look-up":                {reply{status: 405}, "lookup", provider.VerdictFailed},
			"no cancel":                 {reply{status: 405}, "cancel", provider.VerdictFailed},
			"an unclear look-up":        {reply{status: 500}, "lookup", provider.VerdictUnknown},
		} {
			adapter := subject{open: open}.mustOpen(t, settings{url: newServer(t, c.handler)})
			if got := found(t, adapter.(provider.Checker).Check(t.Context(), provider.CheckOptions{})); got[c.finding] != c.want {
				t.Errorf("%s, %s: %s is %s, want %s", name, what, c.finding, got[c.finding], c.want)
			}
		}
		adapter := subject{open: open}.mustOpen(t, settings{url: "http://" + closedAddress})
		got := found(t, adapter.(provider.Checker).Check(t.Context(), provider.CheckOptions{}))
		if got["reachable"] != provider.VerdictFailed || got["credentials"] != provider.VerdictUnknown || got["lookup"] != provider.VerdictUnknown {
			t.Errorf("%s, not reachable: %v", name, got)
		}
	}
}

func TestCheckKnowsAModelThatIsOnlyListed(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]provider.Verdict{
		`{"data":[{"id":"gpt-4"},{"id":"gpt-5.2"}]}`: provider.VerdictOK,
		`{"data":[{"id":"gpt-4"}]}`:                  provider.VerdictFailed,
	} {
		url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/models") {
				reply{status: 200, body: list}.ServeHTTP(w, r)
				return
			}
			http.NotFound(w, r)
		}))
		got := found(t, subjects["openai chat"].mustOpen(t, settings{url: url}).(provider.Checker).Check(t.Context(), provider.CheckOptions{}))
		if got["model"] != want || got["credentials"] != provider.VerdictOK || got["lookup"] != provider.VerdictWarning {
			t.Errorf("%s: %v", list, got)
		}
	}
}

// A provider that says it honours keys is tried: twice under one, once under another.
func TestCheckTriesWhetherKeysAreHonoured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(key string, n int64) string
		want   provider.Verdict
		calls  int64
	}{
		"honoured":         {func(key string, _ int64) string { return `{"of":"` + key + `"}` }, provider.VerdictOK, 3},
		"not honoured":     {func(_ string, n int64) string { return `{"n":` + strings.Repeat("1", int(n)) + `}` }, provider.VerdictFailed, 2},
		"always the same":  {func(string, int64) string { return `{}` }, provider.VerdictUnknown, 3},
		"never any answer": {func(string, int64) string { return `<html>` }, provider.VerdictUnknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			url := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					reply{status: 200, body: c.answer(r.Header.Get("Key"), calls.Add(1))}.ServeHTTP(w, r)
				}
			}))
			checker := subjects["http"].mustOpen(t, settings{url: url, key: "Key"}).(provider.Checker)
			if got := found(t, checker.Check(t.Context(), provider.CheckOptions{})); got["idempotency"] != provider.VerdictUnknown || calls.Load() != 0 {
				t.Errorf("unpaid: %v after %d calls", got, calls.Load())
			}
			if got := found(t, checker.Check(t.Context(), provider.CheckOptions{Paid: true})); got["idempotency"] != c.want || calls.Load() != c.calls {
				t.Errorf("%v after %d calls, want %s after %d", got, calls.Load(), c.want, c.calls)
			}
		})
	}
}

func TestUnpaidCheckCallsNoModel(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		server, requests := listening(t, reply{status: 404})
		s.mustOpen(t, settings{url: server.URL, key: "Key"}).(provider.Checker).Check(t.Context(), provider.CheckOptions{})
		for len(requests) > 0 {
			if r := <-requests; r.method == http.MethodPost && !strings.HasSuffix(r.uri, "/cancel") {
				t.Errorf("%s %s", r.method, r.uri)
			}
		}
	})
}
