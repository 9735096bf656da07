package exercise_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/openai"
	"github.com/onejob/onejob/provider/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are what the suite varies of a configuration.
type settings struct {
	url     string
	limits  onejob.Limits
	certain verdict.Certain
	proxy   string
	roots   *x509.CertPool
	key     string // the idempotency header
}

// adapterUnderTest is an adapter that can be called and asked again.
type adapterUnderTest interface {
	provider.Adapter
	provider.ReAsker
	provider.LookUpper
	provider.Canceller
	Close()
}

// subject is one adapter with what the vendor's documentation says of its replies.
type subject struct {
	open    func(settings) (adapterUnderTest, error)
	input   string
	reply   string                              // to a call, whole
	want    provider.Answer                     // that the reply means, Result aside
	failure func(code string) string            // the body of an error
	usage   string                              // a member of a body that counts tokens
	unread  func(reply string) (without string) // the reply without its usage
}

var call = provider.Call{
	JobID: "0192f0c1-0000-7000-8000-000000000001", Attempt: 2, Kind: "summary", IdempotencyKey: "attempt-key",
}

// question asks about the call.
var question = provider.Question{JobID: call.JobID, Attempt: call.Attempt, IdempotencyKey: call.IdempotencyKey, Reference: "r-1"}

const (
	chatInput    = `{"messages": [{"role": "user", "content": "Say good morning."}]}`
	responseBody = `{"input": "Say good morning."}`
	messageInput = `{"max_tokens": 1024, "messages": [{"role": "user", "content": "Say good morning."}]}`
	runReply     = `{"text": "Good morning.", "model": "m-large", "usage": {"input_tokens": 1117, "cached_input_tokens": 1024, "output_tokens": 46, "reasoning_tokens": 32}}`
)

// subjects are all adapters, each in every way that it calls a provider.
var subjects = map[string]subject{
	"http": {
		open: func(s settings) (adapterUnderTest, error) {
			return httpjson.New(httpjson.Config{Name: "p", URL: s.url, IdempotencyHeader: s.key, Limits: s.limits, Certain: s.certain, Proxy: s.proxy, RootCAs: s.roots})
		},
		input: `{"text": "Say good morning."}`, reply: runReply, want: succeeded("m-large"), failure: runFailure,
		usage: `"usage":{"input_tokens":3,"output_tokens":4}`, unread: without("usage"),
	},
	"openai chat": {
		open: openOpenAI(openai.Config{}), input: chatInput, reply: recorded("chat.json"),
		want: succeeded("gpt-5.2-2025-12-11"), failure: openaiFailure, usage: `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}`, unread: without("usage"),
	},
	"openai responses": {
		open: openOpenAI(openai.Config{API: openai.Responses}), input: responseBody, reply: recorded("response.json"),
		want: succeeded("gpt-5.2-2025-12-11"), failure: openaiFailure, usage: `"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}`, unread: without("usage"),
	},
	"openai responses in the background": {
		open: openOpenAI(openai.Config{API: openai.Responses, Background: true}), input: responseBody, reply: recorded("queued.json"),
		want:    provider.Answer{Certainty: provider.Accepted, Reference: "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b"},
		failure: openaiFailure, usage: `"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}`,
	},
	"anthropic messages": {
		open: openAnthropic(anthropic.Config{}), input: messageInput, reply: recorded("message.json"),
		want: succeeded("claude-opus-5-20260801"), failure: anthropicFailure, usage: `"usage":{"input_tokens":3,"output_tokens":4}`, unread: without("usage"),
	},
	"anthropic batch": {
		open: openAnthropic(anthropic.Config{API: anthropic.Batch}), input: messageInput, reply: recorded("batch.json"),
		want:    provider.Answer{Certainty: provider.Accepted, Reference: "msgbatch_013Zva2CMHLNnXjNJJKqJ2EF"},
		failure: anthropicFailure, usage: `"usage":{"input_tokens":3,"output_tokens":4}`,
	},
}

// succeeded is a success that used what every recorded reply says.
func succeeded(model string) provider.Answer {
	return provider.Answer{Certainty: provider.Succeeded, Usage: &provider.Usage{
		InputTokens: 1117, CachedInputTokens: 1024, OutputTokens: 46, ReasoningTokens: 32, Model: model,
	}}
}

func openOpenAI(c openai.Config) func(settings) (adapterUnderTest, error) {
	return func(s settings) (adapterUnderTest, error) {
		c := c
		c.Name, c.URL, c.APIKey, c.Model = "p", s.url+"/v1", "sk-correct-horse", "gpt-5.2"
		c.IdempotencyHeader, c.Limits, c.Certain, c.Proxy, c.RootCAs = s.key, s.limits, s.certain, s.proxy, s.roots
		return openai.New(c)
	}
}

func openAnthropic(c anthropic.Config) func(settings) (adapterUnderTest, error) {
	return func(s settings) (adapterUnderTest, error) {
		c := c
		c.Name, c.URL, c.APIKey, c.Model = "p", s.url, "sk-ant-correct-horse", "claude-opus-5"
		c.IdempotencyHeader, c.Limits, c.Certain, c.Proxy, c.RootCAs = s.key, s.limits, s.certain, s.proxy, s.roots
		return anthropic.New(c)
	}
}

func runFailure(code string) string { return `{"error":{"code":"` + code + `","message":"no"}}` }

func openaiFailure(code string) string {
	return `{"error":{"message":"no","type":"` + code + `","param":null,"code":"` + code + `"}}`
}

func anthropicFailure(code string) string {
	return `{"type":"error","error":{"type":"` + code + `","message":"no","details":null},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}`
}

func recorded(name string) string {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// without returns a reply without a member.
func without(member string) func(string) string {
	return func(reply string) string {
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(reply), &all); err != nil {
			panic(err)
		}
		delete(all, member)
		text, _ := json.Marshal(all) // it was read from JSON
		return string(text)
	}
}

// with returns a body with one more member in front.
func with(member, body string) string { return "{" + member + "," + strings.TrimPrefix(body, "{") }

// mustOpen returns the subject's adapter.
func (s subject) mustOpen(t testing.TB, with settings) adapterUnderTest {
	t.Helper()
	adapter, err := s.open(with)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(adapter.Close)
	return adapter
}

// callTo makes the subject's call.
func (s subject) callTo(ctx context.Context, adapter provider.Adapter) provider.Answer {
	c := call
	c.Input = json.RawMessage(s.input)
	return adapter.Call(ctx, c)
}

// eachSubject runs a test for every adapter.
func eachSubject(t *testing.T, test func(*testing.T, subject)) {
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// newServer returns the URL of a server.
func newServer(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
