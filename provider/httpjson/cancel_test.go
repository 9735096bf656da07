package httpjson_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
)

func TestCancelSaysWhatTheProviderSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   provider.CancelVerdict
	}{
		"cancelled":         {200, `{"status":"cancelled"}`, provider.CancelAgreed},
		"200 without words": {200, `{}`, provider.CancelAgreed},
		"200 without body":  {200, ``, provider.CancelAgreed},
		"204":               {204, ``, provider.CancelAgreed},
		"succeeded":         {200, `{"status":"succeeded","result":1}`, provider.CancelRefused},
		"failed":            {200, `{"status":"failed"}`, provider.CancelRefused},
		"409":               {409, ``, provider.CancelRefused},
		"410":               {410, ``, provider.CancelRefused},
		"running":           {200, `{"status":"running"}`, provider.CancelUnsure},
		"an unknown word":   {200, `{"status":"cancelling"}`, provider.CancelUnsure},
		"an error":          {200, `{"error":{"code":"internal"}}`, provider.CancelUnsure},
		"200 HTML":          {200, `<html>`, provider.CancelUnsure},
		"202":               {202, ``, provider.CancelUnsure},
		"302":               {302, ``, provider.CancelUnsure},
		"401":               {401, ``, provider.CancelUnsure},
		"404":               {404, ``, provider.CancelUnsure},
		"500":               {500, ``, provider.CancelUnsure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(row{status: c.status, body: c.body})
			t.Cleanup(server.Close)
			adapter := newAdapter(t, httpjson.Config{URL: server.URL, Cancel: httpjson.Cancel{URL: server.URL + "/{ref}"}})
			if got := adapter.Cancel(t.Context(), question); got.Verdict != c.want {
				t.Errorf("%+v, want %s", got, c.want)
			}
		})
	}
}

func TestCancelAsksAtThePlaceOfTheCall(t *testing.T) {
	t.Parallel()
	asked := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	t.Cleanup(server.Close)
	for method, want := range map[string]string{"": "POST", "DELETE": "DELETE"} {
		adapter := newAdapter(t, httpjson.Config{URL: server.URL, Cancel: httpjson.Cancel{URL: server.URL + "/{ref}/cancel", Method: method}})
		adapter.Cancel(t.Context(), question)
		if r := <-asked; r.Method != want || r.URL.Path != "/r-1/cancel" || r.ContentLength > 0 || r.Header.Get("Onejob-Attempt") != "2" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
	}
}

func TestCancelThatCannotBeAskedIsNotAsked(t *testing.T) {
	t.Parallel()
	nameless, located := question, question
	nameless.Reference, located.Reference = "", "/v1/run/r-1"
	for name, c := range map[string]struct {
		url  string
		q    provider.Question
		want provider.CancelVerdict
	}{
		"not configured": {"", question, provider.CancelUnasked},
		"no reference":   {"http://" + closedAddress + "/{ref}", nameless, provider.CancelUnasked},
		"a location":     {"http://" + closedAddress + "/{ref}", located, provider.CancelUnasked},
		"not reachable":  {"http://" + closedAddress + "/{ref}", question, provider.CancelUnsure},
	} {
		adapter := newAdapter(t, httpjson.Config{URL: "http://h.invalid", Cancel: httpjson.Cancel{URL: c.url}})
		if got := adapter.Cancel(t.Context(), c.q); got.Verdict != c.want || got.Detail == "" {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
