package httpjson_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/verdict"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var call = provider.Call{
	JobID: "0192f0c1-0000-7000-8000-000000000001", Attempt: 2, Kind: "invoice",
	Input: json.RawMessage(`{ "text": "hello" }`), IdempotencyKey: "attempt-key",
}

func newAdapter(t testing.TB, c httpjson.Config) *httpjson.Adapter {
	t.Helper()
	c.Name = "primary"
	adapter, err := httpjson.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(adapter.Close)
	return adapter
}

// sentBy returns the request that a call with this configuration makes, and its body.
func sentBy(t *testing.T, c httpjson.Config) (sent *http.Request, body string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		sent, body = r, string(text)
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL + "/v1/run?version=2"
	if answer := newAdapter(t, c).Call(t.Context(), call); answer.Certainty != provider.Succeeded {
		t.Fatalf("answer %+v", answer)
	}
	return sent, body
}

func TestRequestCarriesInputAndNames(t *testing.T) {
	sent, body := sentBy(t, httpjson.Config{Headers: map[string]string{"authorization": "Bearer abcdef"}})
	if sent.Method != http.MethodPost || sent.RequestURI != "/v1/run?version=2" || body != string(call.Input) {
		t.Errorf("%s %s with %s", sent.Method, sent.RequestURI, body)
	}
	want := http.Header{
		"Accept": {"application/json"}, "Content-Type": {"application/json"}, "User-Agent": {"onejob"},
		"Content-Length": {"19"}, "Authorization": {"Bearer abcdef"},
		"Onejob-Job": {call.JobID}, "Onejob-Attempt": {"2"},
	}
	if diff := cmp.Diff(want, sent.Header); diff != "" {
		t.Errorf("headers (-want +got)\n%s", diff)
	}
}

func TestKeyIsSentToProvidersThatHonourIt(t *testing.T) {
	sent, _ := sentBy(t, httpjson.Config{IdempotencyHeader: "Idempotency-Key"})
	if got := sent.Header.Get("Idempotency-Key"); got != call.IdempotencyKey {
		t.Errorf("key %q", got)
	}
}

func TestUserOfTheURLBecomesACredential(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_ = json.NewEncoder(w).Encode([]string{user, password})
	}))
	t.Cleanup(server.Close)
	answer := newAdapter(t, httpjson.Config{URL: "http://me:pass@" + server.Listener.Addr().String()}).Call(t.Context(), call)
	if string(answer.Result) != "[\"me\",\"pass\"]\n" {
		t.Errorf("answer %+v", answer)
	}
}

func TestUnusableConfigurationIsRefused(t *testing.T) {
	configs := map[string]httpjson.Config{
		"no url":                {},
		"url without a host":    {URL: "https:///v1"},
		"url of another scheme": {URL: "ftp://h/"},
		"proxy":                 {URL: "https://h/", Proxy: "h"},
		"header name":           {URL: "https://h/", Headers: map[string]string{"a b": "c"}},
		"header value":          {URL: "https://h/", Headers: map[string]string{"A": "c\nd"}},
		"header of ours":        {URL: "https://h/", Headers: map[string]string{"idempotency-key": "k"}},
		"key header twice":      {URL: "https://h/", IdempotencyHeader: "My-Key", Headers: map[string]string{"my-key": "k"}},
		"key header name":       {URL: "https://h/", IdempotencyHeader: "a b"},
		"look-up url":           {URL: "https://h/", LookUp: httpjson.LookUp{URL: "/{ref}"}},
		"look-up without name":  {URL: "https://h/", LookUp: httpjson.LookUp{URL: "https://h/run"}},
		"look-up by other name": {URL: "https://h/", LookUp: httpjson.LookUp{URL: "https://h/{ref}/{owner}"}},
		"look-up host by name":  {URL: "https://h/", LookUp: httpjson.LookUp{URL: "https://{ref}.h/"}},
		"look-up with a user":   {URL: "https://h/", LookUp: httpjson.LookUp{URL: "https://me:pass@h/{ref}"}},
		"look-up's other state": {URL: "https://h/", LookUp: httpjson.LookUp{States: map[string]string{"done": "fine"}}},
		"cancel without name":   {URL: "https://h/", Cancel: httpjson.Cancel{URL: "https://h/cancel"}},
		"cancel by GET":         {URL: "https://h/", Cancel: httpjson.Cancel{URL: "https://h/{ref}", Method: "GET"}},
		"certain timeout":       {URL: "https://h/", Certain: verdict.Certain{Refused: []int{504}}},
		"certain success":       {URL: "https://h/", Certain: verdict.Certain{NoEffect: []int{200}}},
		"certain timeout code":  {URL: "https://h/", Certain: verdict.Certain{NoEffectCodes: []string{"timeout"}}},
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if _, err := httpjson.New(configs[name]); onejob.CodeOf(err) != onejob.CodeMisconfigured {
			t.Errorf("%s: %v", name, err)
		}
	}
}
