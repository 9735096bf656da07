package httpjson_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/internal/rawserver"
)

var question = provider.Question{JobID: call.JobID, Attempt: 2, IdempotencyKey: "attempt-key", Reference: "r-1", Age: time.Hour}

func notFound() provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonNotFound, Retryable: true}
}

func later(a provider.Answer, after time.Duration) provider.Answer {
	a.RetryAfter = after
	return a
}

// lookUpTable is what the answers to a look-up mean.
var lookUpTable = map[string]row{
	"queued":                        {200, nil, `{"status":"queued"}`, unknown(onejob.ReasonInProgress)},
	"running":                       {200, nil, `{"status":"running"}`, unknown(onejob.ReasonInProgress)},
	"running, by a 202":             {202, nil, `{"status":"running"}`, unknown(onejob.ReasonInProgress)},
	"running, in another word":      {200, nil, `{"status":"starting"}`, unknown(onejob.ReasonInProgress)},
	"succeeded":                     {200, nil, `{"status":"succeeded","result":{"a": 1}}`, succeeded(`{"a": 1}`)},
	"succeeded, with usage":         {200, nil, `{"status":"succeeded","result":1,` + used + `}`, using(succeeded(`1`), 3, 4, 1)},
	"succeeded, with a null":        {200, nil, `{"status":"succeeded","result":null}`, succeeded(`null`)},
	"succeeded, without a result":   {200, nil, `{"status":"succeeded"}`, unknown(onejob.ReasonUnreadable)},
	"failed":                        {200, nil, `{"status":"failed"}`, failed(onejob.ReasonProviderFailed)},
	"failed, with usage":            {200, nil, `{"status":"failed",` + used + `}`, using(failed(onejob.ReasonProviderFailed), 3, 4, 1)},
	"failed, for a reason of its":   {200, nil, `{"status":"failed","error":{"code":"E1001"}}`, failed(onejob.ReasonProviderFailed)},
	"failed, rejected":              {200, nil, `{"status":"failed","error":{"code":"invalid_request"}}`, failed(onejob.ReasonRejected)},
	"failed, quota":                 {200, nil, `{"status":"failed","error":"insufficient_quota"}`, failed(onejob.ReasonProviderQuota)},
	"failed, busy":                  {200, nil, `{"status":"failed","error":"overloaded"}`, refused(0)},
	"failed, busy and billed":       {200, nil, `{"status":"failed","error":"overloaded",` + used + `}`, using(failed(onejob.ReasonProviderFailed), 3, 4, 1)},
	"cancelled":                     {200, nil, `{"status":"cancelled"}`, failed(onejob.ReasonProviderCancelled)},
	"an unknown word":               {200, nil, `{"status":"done"}`, unknown(onejob.ReasonUnreadable)},
	"no word":                       {200, nil, `{"result":1}`, unknown(onejob.ReasonUnreadable)},
	"an error object":               {200, nil, `{"error":{"code":"invalid_request"}}`, unknown(onejob.ReasonRejected)},
	"HTML":                          {200, nil, `<html>`, unknown(onejob.ReasonUnreadable)},
	"204":                           {204, nil, ``, unknown(onejob.ReasonUnreadable)},
	"401":                           {401, nil, ``, unknown(onejob.ReasonRejected)},
	"404":                           {404, nil, ``, unknown(onejob.ReasonNotFound)},
	"410":                           {410, nil, ``, unknown(onejob.ReasonNotFound)},
	"302":                           {302, map[string]string{"Location": "/login"}, ``, unknown(onejob.ReasonRejected)},
	"429 in 7 seconds":              {429, map[string]string{"Retry-After": "7"}, ``, later(unknown(onejob.ReasonRefused), 7*time.Second)},
	"500":                           {500, nil, ``, unknown(onejob.ReasonServerError)},
	"503 that says it has finished": {503, nil, `{"status":"failed"}`, unknown(onejob.ReasonRefused)},
}

func TestLookUpLearnsNoMoreThanItIsTold(t *testing.T) {
	t.Parallel()
	for name, row := range lookUpTable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.checkLookUp(t, httpjson.LookUp{States: map[string]string{"starting": "running"}}, question)
		})
	}
}

func TestNotFoundIsCertainOnlyWhereConfiguredAndAfterItsTime(t *testing.T) {
	t.Parallel()
	settled := httpjson.LookUp{NotFoundAfter: 5 * time.Minute}
	old, young, named := question, question, question
	old.Age, young.Age, named.Age = 5*time.Minute+1, 5*time.Minute, time.Hour
	old.Reference, young.Reference = "", ""
	row{404, nil, ``, notFound()}.checkLookUp(t, settled, old)
	row{404, nil, ``, unknown(onejob.ReasonNotFound)}.checkLookUp(t, settled, young)
	row{404, nil, ``, unknown(onejob.ReasonNotFound)}.checkLookUp(t, httpjson.LookUp{}, old)
	row{404, nil, ``, unknown(onejob.ReasonNotFound)}.checkLookUp(t, settled, named) // it was there
	row{410, nil, ``, unknown(onejob.ReasonNotFound)}.checkLookUp(t, settled, old)   // so was this
	row{400, nil, ``, unknown(onejob.ReasonRejected)}.checkLookUp(t, settled, old)
	row{200, nil, `{"error":{"code":"not_found"}}`, unknown(onejob.ReasonRejected)}.checkLookUp(t, settled, old)
}

// checkLookUp has a server give the row's answer to a look-up.
func (r row) checkLookUp(t *testing.T, l httpjson.LookUp, q provider.Question) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	l.URL = server.URL + "/v1/run/{key}"
	got := newAdapter(t, httpjson.Config{URL: server.URL, LookUp: l}).LookUp(t.Context(), q)
	if diff := cmp.Diff(r.want, got, cmpopts.IgnoreFields(provider.Answer{}, "Detail")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestResultOfALookUpMayHaveAnotherName(t *testing.T) {
	t.Parallel()
	row{200, nil, `{"status":"succeeded","output":[1]}`, succeeded(`[1]`)}.checkLookUp(t, httpjson.LookUp{Result: "output"}, question)
}

func TestLookUpAsksAtThePlaceOfTheCall(t *testing.T) {
	t.Parallel()
	asked := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		_, _ = io.WriteString(w, `{"status":"running"}`)
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct{ url, reference, want string }{
		{"/v1/run/{ref}", "r-1", "/v1/run/r-1"},
		{"/v1/run/{ref}/x?k={key}", "a b/c?d", "/v1/run/a%20b%2Fc%3Fd/x?k=attempt-key"},
		{"/v1/run/{ref}", "..", "/v1/run/%2E%2E"},
		{"/v1/run?ref={ref}", "a&b=c", "/v1/run?ref=a%26b%3Dc"},
		{"/v1/of/{job}/{attempt}", "", "/v1/of/" + call.JobID + "/2"},
		{"/v1/by/{key}", "", "/v1/by/attempt-key"},
		{"/v1/run/{ref}", "/v2/elsewhere?x=1", "/v2/elsewhere?x=1"},
		{"/v1/run/{ref}", server.URL + "/v2/elsewhere", "/v2/elsewhere"},
	} {
		q := question
		q.Reference = c.reference
		adapter := newAdapter(t, httpjson.Config{
			URL: server.URL + "/v1/run", Headers: map[string]string{"X-Tenant": "acme"},
			IdempotencyHeader: "Idempotency-Key", LookUp: httpjson.LookUp{URL: server.URL + c.url},
		})
		if !adapter.CanLookUp(q) {
			t.Errorf("%s cannot be asked about %q", c.url, c.reference)
			continue
		}
		adapter.LookUp(t.Context(), q)
		r := <-asked
		if r.Method != http.MethodGet || r.RequestURI != c.want {
			t.Errorf("%s for %q asks %s %s, want GET %s", c.url, c.reference, r.Method, r.RequestURI, c.want)
		}
		if r.Header.Get("X-Tenant") != "acme" || r.Header.Get("Onejob-Job") != call.JobID || r.Header.Get("Onejob-Attempt") != "2" || r.Header.Get("Idempotency-Key") != "" {
			t.Errorf("%s is asked with %v", c.url, r.Header)
		}
	}
}

func TestCallWithoutItsNameCannotBeLookedUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, reference string }{
		{"", "r-1"},
		{"https://h.invalid/{ref}", ""},
		{"https://h.invalid/{ref}", "https://elsewhere.invalid/r-1"},
		{"https://h.invalid/{ref}", "//elsewhere.invalid/r-1"},
		{"https://h.invalid/{ref}", "http://h.invalid/r-1"},
		{"https://h.invalid/{ref}", "https://me@h.invalid/r-1"},
	} {
		q := question
		q.Reference = c.reference
		adapter := newAdapter(t, httpjson.Config{URL: "https://h.invalid/", LookUp: httpjson.LookUp{URL: c.url}})
		if adapter.CanLookUp(q) {
			t.Errorf("%q can be asked about %q", c.url, c.reference)
		}
		if got := adapter.LookUp(t.Context(), q); got.Certainty != provider.Unknown {
			t.Errorf("%q is asked about %q: %+v", c.url, c.reference, got)
		}
	}
}

func TestLookUpThatDoesNotArriveLeavesTheCallUnknown(t *testing.T) {
	t.Parallel()
	server := rawserver.New(t, func(c *rawserver.Conn) { c.ReadRequest() })
	for at, want := range map[string]provider.Answer{
		closedAddress: unknown(onejob.ReasonNotSent),
		server.Addr:   unknown(onejob.ReasonConnectionLost),
	} {
		adapter := newAdapter(t, httpjson.Config{URL: "http://" + at, LookUp: httpjson.LookUp{URL: "http://" + at + "/{ref}?token=battery-staple"}})
		got := adapter.LookUp(t.Context(), question)
		mustAnswer(t, got, want)
		if strings.Contains(got.Detail, "staple") {
			t.Errorf("detail %q tells a secret", got.Detail)
		}
	}
}
