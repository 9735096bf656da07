package httpjson_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/verdict"
)

func TestReAskSendsTheKeptBytesUnderTheSameKey(t *testing.T) {
	t.Parallel()
	type seen struct{ body, key string }
	asked := make(chan seen, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- seen{string(body), r.Header.Get("Idempotency-Key")}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	adapter := newAdapter(t, httpjson.Config{URL: server.URL, IdempotencyHeader: "Idempotency-Key"})
	body, err := adapter.Body(call)
	if err != nil {
		t.Fatal(err)
	}
	adapter.Call(t.Context(), call)
	first := <-asked
	again := call
	again.Input, again.Body = nil, body
	mustAnswer(t, adapter.ReAsk(t.Context(), again), succeeded("{}"))
	if second := <-asked; second != first || second.key != call.IdempotencyKey {
		t.Errorf("first %+v, again %+v", first, second)
	}
}

func TestReAskWithoutAKeyIsNotSent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was sent") }))
	t.Cleanup(server.Close)
	mustAnswer(t, newAdapter(t, httpjson.Config{URL: server.URL}).ReAsk(t.Context(), call), unknown(onejob.ReasonNotSent))
	keyless := call
	keyless.IdempotencyKey = ""
	mustAnswer(t, newAdapter(t, httpjson.Config{URL: server.URL, IdempotencyHeader: "Key"}).ReAsk(t.Context(), keyless), unknown(onejob.ReasonNotSent))
}

// reAskTable is what the answers to a re-ask mean: a no may be about the second request
// alone, so it leaves the call unknown.
var reAskTable = map[string]row{
	"200":                  {200, nil, `{"a":1}`, succeeded(`{"a":1}`)},
	"202":                  {202, nil, `{"id":"r-1"}`, accepted("r-1")},
	"400":                  {400, nil, ``, unknown(onejob.ReasonRejected)},
	"400, the key is used": {400, nil, `{"error":{"code":"idempotency_key_already_exists"}}`, unknown(onejob.ReasonRejected)},
	"413":                  {413, nil, ``, unknown(onejob.ReasonRejected)},
	"415":                  {415, nil, ``, unknown(onejob.ReasonRejected)},
	"422, already paid":    {422, nil, `{"error":{"code":"already_paid"}}`, unknown(onejob.ReasonRejected)},
	"2xx error, rejected":  {200, nil, `{"error":{"code":"invalid_request"}}`, unknown(onejob.ReasonRejected)},
	"400, quota":           {400, nil, `{"error":{"code":"insufficient_quota"}}`, unknown(onejob.ReasonProviderQuota)},
	"2xx error, key":       {200, nil, `{"error":{"code":"invalid_api_key"}}`, unknown(onejob.ReasonRejected)},
	"2xx error, busy":      {200, nil, `{"error":{"code":"overloaded"}}`, unknown(onejob.ReasonRefused)},
	"2xx error, quota":     {200, nil, `{"error":{"code":"insufficient_quota"}}`, unknown(onejob.ReasonProviderQuota)},
	"302":                  {302, nil, ``, unknown(onejob.ReasonRejected)},
	"401":                  {401, nil, ``, unknown(onejob.ReasonRejected)},
	"402":                  {402, nil, ``, unknown(onejob.ReasonProviderQuota)},
	"403":                  {403, nil, ``, unknown(onejob.ReasonRejected)},
	"404":                  {404, nil, ``, unknown(onejob.ReasonRejected)},
	"405":                  {405, nil, ``, unknown(onejob.ReasonRejected)},
	"409, declared":        {409, nil, ``, unknown(onejob.ReasonRejected)},
	"422, of a code":       {422, nil, `{"error":{"code":"E-NEVER"}}`, unknown(onejob.ReasonRejected)},
	"429":                  {429, map[string]string{"Retry-After": "2"}, ``, later(unknown(onejob.ReasonRefused), 2*time.Second)},
	"500":                  {500, nil, ``, unknown(onejob.ReasonServerError)},
	"503":                  {503, nil, ``, unknown(onejob.ReasonRefused)},
	"too long, declared":   {200, map[string]string{"Content-Length": "200"}, ``, failed(onejob.ReasonTooLarge)},
	"400, too long to say": {400, map[string]string{"Content-Length": "200"}, ``, unknown(onejob.ReasonTooLarge)},
}

func TestReAskLearnsNothingFromANo(t *testing.T) {
	t.Parallel()
	for name, row := range reAskTable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(row)
			t.Cleanup(server.Close)
			adapter := newAdapter(t, httpjson.Config{
				URL: server.URL, IdempotencyHeader: "Idempotency-Key", Limits: onejob.Limits{ResultBytes: 100},
				Certain: verdict.Certain{NoEffect: []int{409}, NoEffectCodes: []string{"E-NEVER"}},
			})
			got := adapter.ReAsk(t.Context(), call)
			if diff := cmp.Diff(row.want, got, cmpopts.IgnoreFields(provider.Answer{}, "Detail")); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReAskThatDoesNotArriveLeavesTheCallUnknown(t *testing.T) {
	t.Parallel()
	adapter := newAdapter(t, httpjson.Config{URL: "http://" + closedAddress, IdempotencyHeader: "Idempotency-Key"})
	mustAnswer(t, adapter.ReAsk(t.Context(), call), unknown(onejob.ReasonNotSent))
}
