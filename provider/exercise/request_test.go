package exercise_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/openai"
)

// seen is a request as it arrived.
type seen struct {
	method, uri string
	header      http.Header
	body        string
}

// listening returns a server that gives the reply and tells what it was asked.
func listening(t *testing.T, r reply) (*httptest.Server, <-chan seen) {
	t.Helper()
	requests := make(chan seen, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		requests <- seen{req.Method, req.RequestURI, req.Header, string(body)}
		r.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server, requests
}

// The vendors' SDKs read these. Not one may reach a request.
var ambient = map[string]string{
	"OPENAI_API_KEY": "sk-ambient", "OPENAI_ADMIN_KEY": "sk-ambient", "OPENAI_ORG_ID": "ambient", "OPENAI_PROJECT_ID": "ambient",
	"OPENAI_BASE_URL": "http://ambient.invalid/v1", "OPENAI_CUSTOM_HEADERS": "X-Ambient: ambient",
	"ANTHROPIC_API_KEY": "sk-ambient", "ANTHROPIC_AUTH_TOKEN": "ambient", "ANTHROPIC_BASE_URL": "http://ambient.invalid",
	"ANTHROPIC_CUSTOM_HEADERS": "X-Ambient: ambient", "ANTHROPIC_PROFILE": "ambient", "ANTHROPIC_WORKSPACE_ID": "ambient",
	"HTTP_PROXY": "http://ambient.invalid", "HTTPS_PROXY": "http://ambient.invalid", "ALL_PROXY": "http://ambient.invalid", "NO_PROXY": "",
}

func TestNothingOfTheEnvironmentReachesARequest(t *testing.T) {
	for name, value := range ambient {
		t.Setenv(name, value)
	}
	for name, s := range subjects {
		server, requests := listening(t, reply{status: 200, body: s.reply})
		mustBe(t, s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL})), s.want)
		for header, values := range (<-requests).header {
			if strings.Contains(header+strings.Join(values, " "), "mbient") {
				t.Errorf("%s sends %s: %v", name, header, values)
			}
		}
	}
	for name, open := range map[string]func() (interface{ Close() }, error){
		"openai": func() (interface{ Close() }, error) {
			return openai.New(openai.Config{Name: "p", Model: "m", URL: "http://127.0.0.1/v1"})
		},
		"anthropic": func() (interface{ Close() }, error) {
			return anthropic.New(anthropic.Config{Name: "p", Model: "m", URL: "http://127.0.0.1"})
		},
	} {
		if _, err := open(); err != nil {
			t.Errorf("%s without a key: %v", name, err)
		}
	}
}

func TestAKeyOfTheEnvironmentIsNoKey(t *testing.T) {
	for name, value := range ambient {
		t.Setenv(name, value)
	}
	server, requests := listening(t, reply{status: 401})
	keyless, err := openai.New(openai.Config{Name: "p", Model: "m", URL: server.URL + "/v1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keyless.Close)
	keylessToo, err := anthropic.New(anthropic.Config{Name: "p", Model: "m", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keylessToo.Close)
	for _, adapter := range []provider.Adapter{keyless, keylessToo} {
		adapter.Call(t.Context(), provider.Call{Input: json.RawMessage(`{}`)})
		if r := <-requests; r.header.Get("Authorization") != "" || r.header.Get("X-Api-Key") != "" {
			t.Errorf("sent with %v", r.header)
		}
	}
}

func TestEveryAdapterSaysForWhomItCalls(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		server, requests := listening(t, reply{status: 200, body: s.reply})
		mustBe(t, s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL})), s.want)
		r := <-requests
		if r.header.Get("Onejob-Job") != call.JobID || r.header.Get("Onejob-Attempt") != "2" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.header)
		}
		for name := range r.header {
			if strings.Contains(name, "Idempotency") {
				t.Errorf("%s is sent to a provider that honours no keys", name)
			}
		}
		mustBe(t, s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL, key: "Request-Key"})), s.want)
		if r := <-requests; r.header.Get("Request-Key") != call.IdempotencyKey {
			t.Errorf("headers %v", r.header)
		}
	})
}

// place is where each call goes, and with which credential.
var places = map[string]struct{ uri, header, value string }{
	"openai chat":                        {"/v1/chat/completions", "Authorization", "Bearer sk-correct-horse"},
	"openai responses":                   {"/v1/responses", "Authorization", "Bearer sk-correct-horse"},
	"openai responses in the background": {"/v1/responses", "Authorization", "Bearer sk-correct-horse"},
	"anthropic messages":                 {"/v1/messages", "Authorization", "Bearer sk-ant-correct-horse"},
	"anthropic batch":                    {"/v1/messages/batches", "Authorization", "Bearer sk-ant-correct-horse"},
}

func TestCallsGoWhereTheVendorTakesThem(t *testing.T) {
	t.Parallel()
	for name, place := range places {
		s := subjects[name]
		server, requests := listening(t, reply{status: 200, body: s.reply})
		s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL}))
		if r := <-requests; r.method != http.MethodPost || r.uri != place.uri || r.header.Get(place.header) != place.value {
			t.Errorf("%s: %s %s with %v", name, r.method, r.uri, r.header)
		}
	}
}

// bodies are what is sent of each input.
var bodies = map[string]string{
	"http":                               `{"text": "Say good morning."}`,
	"openai chat":                        `{"model":"gpt-5.2","messages": [{"role": "user", "content": "Say good morning."}]}`,
	"openai responses":                   `{"model":"gpt-5.2","input": "Say good morning."}`,
	"openai responses in the background": `{"model":"gpt-5.2","background":true,"input": "Say good morning."}`,
	"anthropic messages":                 `{"model":"claude-opus-5","max_tokens": 1024, "messages": [{"role": "user", "content": "Say good morning."}]}`,
	"anthropic batch": `{"requests":[{"custom_id":"0192f0c1-0000-7000-8000-000000000001-2","params":` +
		`{"model":"claude-opus-5","max_tokens": 1024, "messages": [{"role": "user", "content": "Say good morning."}]}}]}`,
}

func TestReAskSendsTheBytesOfTheCall(t *testing.T) {
	t.Parallel()
	eachNamed(t, func(t *testing.T, name string, s subject) {
		server, requests := listening(t, reply{status: 200, body: s.reply})
		adapter := s.mustOpen(t, settings{url: server.URL, key: "Idempotency-Key"})
		mustBe(t, s.callTo(t.Context(), adapter), s.want)
		first := <-requests
		if first.body != bodies[name] {
			t.Errorf("sent %s", first.body)
		}
		c := call
		c.Input = json.RawMessage(s.input)
		body, err := adapter.Body(c)
		if err != nil {
			t.Fatal(err)
		}
		c.Input, c.Body = nil, body
		mustBe(t, adapter.ReAsk(t.Context(), c), s.want)
		if again := <-requests; again.body != first.body || again.uri != first.uri || again.header.Get("Idempotency-Key") != first.header.Get("Idempotency-Key") {
			t.Errorf("first %+v, again %+v", first, again)
		}
	})
}

func TestReAskOfEveryAdapterLearnsNothingFromANo(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		for name, row := range map[string]row{
			"400":         {says(400, "invalid_request_error"), unknown(onejob.ReasonRejected)},
			"401":         {says(401, "authentication_error"), unknown(onejob.ReasonRejected)},
			"402":         {says(402, "billing_error"), unknown(onejob.ReasonProviderQuota)},
			"429":         {says(429, "rate_limit_error"), unknown(onejob.ReasonRefused)},
			"500":         {says(500, "api_error"), unknown(onejob.ReasonServerError)},
			"busy in 200": {says(200, "overloaded_error"), unknown(onejob.ReasonRefused)},
		} {
			t.Run(name, func(t *testing.T) {
				server, _ := listening(t, row.reply(s))
				adapter := s.mustOpen(t, settings{url: server.URL, key: "Idempotency-Key"})
				c := call
				c.Body = []byte(bodies["http"])
				mustBe(t, adapter.ReAsk(t.Context(), c), row.want)
			})
		}
		c := call
		c.Body = []byte(`{}`)
		mustBe(t, s.mustOpen(t, settings{url: "http://" + closedAddress, key: "Idempotency-Key"}).ReAsk(t.Context(), c), unknown(onejob.ReasonNotSent))
		mustBe(t, s.mustOpen(t, settings{url: "http://" + closedAddress}).ReAsk(t.Context(), c), unknown(onejob.ReasonNotSent))
	})
}

// eachNamed runs a test for every adapter by its name.
func eachNamed(t *testing.T, test func(*testing.T, string, subject)) {
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, s)
		})
	}
}
