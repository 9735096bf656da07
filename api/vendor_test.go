package api_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	anthropic "github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/simulator"
)

// swallowing is a way to the door on which the first answers are lost: the door has given them
// whole, and the client's connection breaks.
func (r *rig) swallowing(t *testing.T, d *door, answers int32) (address string, swallowed *atomic.Int32) {
	t.Helper()
	swallowed = &atomic.Int32{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: d.address})
	proxy.FlushInterval = -1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if swallowed.Add(1) > answers {
			proxy.ServeHTTP(w, request)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), request)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	return server.URL, swallowed
}

func (r *rig) openAI(address string, more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(address + "/v1"), option.WithAPIKey(r.token), option.WithMaxRetries(4)}, more...)...)
}

func (r *rig) claude(address string, more ...anthropicoption.RequestOption) anthropic.Client {
	return anthropic.NewClient(append([]anthropicoption.RequestOption{
		anthropicoption.WithoutEnvironmentDefaults(), anthropicoption.WithBaseURL(address), anthropicoption.WithAPIKey(r.token), anthropicoption.WithMaxRetries(4),
	}, more...)...)
}

var chat = openai.ChatCompletionNewParams{
	Model: "m-large", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
}

var message = anthropic.MessageNewParams{
	Model: "c-large", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
}

// mustBeOneJob asserts that the owner has one job, which its provider executed once.
func (r *rig) mustBeOneJob(sim *simulator.Client) string {
	r.t.Helper()
	jobs, err := r.store.Jobs(r.t.Context(), postgres.Filter{Owner: r.owner})
	if err != nil || len(jobs) != 1 {
		r.t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	counts, err := sim.Executions(r.t.Context(), simulator.Subject{Job: jobs[0].ID})
	if err != nil || counts.Executions != 1 {
		r.t.Errorf("the provider executed the job %d times, %v", counts.Executions, err)
	}
	return jobs[0].ID
}

// TestOpenAIsSDKRetriesAreOneJob: its own retries on, answers swallowed on the way.
func TestOpenAIsSDKRetriesAreOneJob(t *testing.T) {
	r := newRig(t)
	sim := r.work()
	address, asked := r.swallowing(t, r.door, 2)
	client := r.openAI(address)
	var response *http.Response
	first, err := client.Chat.Completions.New(t.Context(), chat, option.WithHeader("Idempotency-Key", "click"), option.WithResponseInto(&response))
	if err != nil || len(first.Choices) != 1 || first.Choices[0].Message.Content != "done" {
		t.Fatalf("%+v, %v", first, err)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the SDK asked %d times", n)
	}
	job := r.mustBeOneJob(sim)
	if response.Header.Get("Onejob-Job") != job || response.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the headers are %v, and the job %s", response.Header, job)
	}
	second, err := client.Chat.Completions.New(t.Context(), chat, option.WithHeader("Idempotency-Key", "click"))
	if err != nil || second.RawJSON() != first.RawJSON() {
		t.Errorf("a second click got %s, %v", second.RawJSON(), err)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), chat, option.WithHeader("Idempotency-Key", "click"),
		option.WithJSONSet("stream_options.include_usage", true))
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			t.Errorf("the accumulator refuses %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil || len(whole.Choices) != 1 || whole.Choices[0].Message.Content != "done" || whole.Choices[0].FinishReason != first.Choices[0].FinishReason ||
		whole.ID != first.ID || whole.Usage.TotalTokens != first.Usage.TotalTokens {
		t.Errorf("as a stream it is %+v, %v", whole.ChatCompletion, err)
	}
	r.mustBeOneJob(sim)
}

// TestAnthropicsSDKRetriesAreOneJob as OpenAI's are, by a stream that is swallowed too.
func TestAnthropicsSDKRetriesAreOneJob(t *testing.T) {
	r := newRig(t)
	sim := r.work()
	address, asked := r.swallowing(t, r.door, 2)
	client := r.claude(address)
	stream := client.Messages.NewStreaming(t.Context(), message, anthropicoption.WithHeader("Idempotency-Key", "click"))
	var whole anthropic.Message
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			t.Errorf("the accumulator refuses %s: %v", stream.Current().RawJSON(), err)
		}
	}
	if err := stream.Err(); err != nil || len(whole.Content) != 1 || whole.Content[0].Text != "done" {
		t.Fatalf("as a stream it is %+v, %v", whole, err)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the SDK asked %d times", n)
	}
	var response *http.Response
	again, err := client.Messages.New(t.Context(), message, anthropicoption.WithHeader("Idempotency-Key", "click"), anthropicoption.WithResponseInto(&response))
	if err != nil || again.ID != whole.ID || again.StopReason != whole.StopReason || again.Usage.OutputTokens != whole.Usage.OutputTokens || again.Content[0].Text != "done" {
		t.Errorf("a second click got %+v, %v", again, err)
	}
	if job := r.mustBeOneJob(sim); response.Header.Get("Onejob-Job") != job {
		t.Errorf("the headers are %v, and the job %s", response.Header, job)
	}
}

// TestSDKsAreToldInTheirOwnFormat what is wrong, and not to send it again.
func TestSDKsAreToldInTheirOwnFormat(t *testing.T) {
	r := newRig(t)
	address, asked := r.swallowing(t, r.door, 0)
	key := option.WithHeader("Idempotency-Key", "k")
	gpt := r.openAI(address)
	for name, c := range map[string]struct {
		options []option.RequestOption
		status  int
		code    string
	}{
		"no key":             {nil, 400, "idempotency-key-missing"},
		"an unknown token":   {[]option.RequestOption{key, option.WithAPIKey("oj_nobody")}, 401, "unauthorized"},
		"another model":      {[]option.RequestOption{key, option.WithJSONSet("model", "m-huge")}, 404, "not-found"},
		"a model of no kind": {[]option.RequestOption{key, option.WithJSONSet("model", 7)}, 400, "invalid-request"},
	} {
		before := asked.Load()
		_, err := gpt.Chat.Completions.New(t.Context(), chat, c.options...)
		if failed, ok := errors.AsType[*openai.Error](err); !ok || failed.StatusCode != c.status || failed.Code != c.code || failed.Message == "" || failed.Response.Header.Get("Onejob-Problem") != api.ProblemBase+c.code {
			t.Errorf("%s got %v", name, err)
		}
		if n := asked.Load() - before; n != 1 {
			t.Errorf("%s was sent %d times", name, n)
		}
	}
	claude := r.claude(address)
	before := asked.Load()
	_, err := claude.Messages.New(t.Context(), message)
	if failed, ok := errors.AsType[*anthropic.Error](err); !ok || failed.StatusCode != 400 || !strings.Contains(failed.RawJSON(), "invalid_request_error") || asked.Load()-before != 1 {
		t.Errorf("Anthropic's SDK got %v", err)
	}
}

// TestConflictAndFailureReachTheSDKOnce: they will not get better by being sent again.
func TestConflictAndFailureReachTheSDKOnce(t *testing.T) {
	r := newRig(t)
	r.work()
	address, asked := r.swallowing(t, r.door, 0)
	client := r.openAI(address)
	key := option.WithHeader("Idempotency-Key", "k")
	if _, err := client.Chat.Completions.New(t.Context(), chat, key); err != nil {
		t.Fatal(err)
	}
	before := asked.Load()
	_, err := client.Chat.Completions.New(t.Context(), chat, key, option.WithJSONSet("temperature", 0.5))
	if failed, ok := errors.AsType[*openai.Error](err); !ok || failed.StatusCode != 409 || failed.Code != "idempotency-conflict" || asked.Load()-before != 1 {
		t.Errorf("another intent got %v, after %d requests", err, asked.Load()-before)
	}
	before = asked.Load()
	rejected := option.WithJSONSet("simulate", map[string]any{"status": 400})
	_, err = client.Chat.Completions.New(t.Context(), chat, option.WithHeader("Idempotency-Key", "rejected"), rejected)
	if failed, ok := errors.AsType[*openai.Error](err); !ok || failed.StatusCode != 502 || failed.Code != "rejected" || asked.Load()-before != 1 {
		t.Errorf("a failed job got %v, after %d requests", err, asked.Load()-before)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), chat, option.WithHeader("Idempotency-Key", "rejected"), rejected)
	for stream.Next() {
		t.Errorf("the stream told %s", stream.Current().RawJSON())
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "rejected") {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestKeysAreDerivedWhereThatIsConfigured: the same content is the same job.
func TestKeysAreDerivedWhereThatIsConfigured(t *testing.T) {
	r := newRig(t)
	sim := r.work()
	address, asked := r.swallowing(t, r.open(func(o *api.Options) {
		o.DeriveKeys, o.OpenAI, o.Models = true, &api.VendorDoor{Kind: "chat", Provider: "gpt"}, map[string]string{"gpt": "m-large"}
	}), 1)
	client := r.openAI(address)
	if _, err := client.Chat.Completions.New(t.Context(), chat); err != nil || asked.Load() != 2 {
		t.Fatalf("%v, after %d requests", err, asked.Load())
	}
	r.mustBeOneJob(sim)
}

// TestSDKThatWaitsTooLongAsksAgain: the job goes on meanwhile.
func TestSDKThatWaitsTooLongAsksAgain(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.VendorWait = 50 * time.Millisecond })
	sim := r.work()
	client := r.openAI("http://"+r.door.address, option.WithMaxRetries(50))
	gate := "gate-" + r.owner
	released := make(chan error, 1)
	go func() {
		jobs := []string{}
		for len(jobs) == 0 && t.Context().Err() == nil {
			found, err := r.store.Jobs(t.Context(), postgres.Filter{Owner: r.owner})
			if err != nil {
				released <- err
				return
			}
			for _, j := range found {
				jobs = append(jobs, j.ID)
			}
		}
		_, err := sim.AwaitRequest(t.Context(), simulator.Subject{Job: jobs[0]}, 1)
		if err == nil {
			_, err = sim.Release(t.Context(), gate)
		}
		released <- err
	}()
	got, err := client.Chat.Completions.New(t.Context(), chat, option.WithHeader("Idempotency-Key", "slow"), option.WithJSONSet("simulate", map[string]any{"hold": gate}))
	if err != nil || got.Choices[0].Message.Content != "done" {
		t.Errorf("%v", err)
	}
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	r.mustBeOneJob(sim)
}

// TestVendorsAnswerIsTheBytesThatAreStored: no encoder touches them, as a provider might have signed
// them.
func TestVendorsAnswerIsTheBytesThatAreStored(t *testing.T) {
	const stored = `{"id": "c1",  "choices": [], "big": 9007199254740993, "less": "<"}`
	r := newRig(t, hasty)
	sim := r.work()
	ask := call{method: http.MethodPost, path: "/v1/chat/completions", token: r.token, key: "k", body: `{"model": "m-large", "messages": [], "simulate": {"hold": "gate-` + r.owner + `"}}`}
	job := r.do(ask).header.Get("Onejob-Job")
	if _, err := sim.AwaitRequest(t.Context(), simulator.Subject{Job: job}, 1); err != nil {
		t.Fatal(err)
	}
	resolve := call{method: http.MethodPost, path: "/v1/jobs/" + job + "/attempts/1/resolve", token: r.mustToken("ops", onejob.RoleOperator), body: `{"as": "succeeded", "result": ` + stored + `}`}
	if got := r.do(resolve); got.status != http.StatusOK {
		t.Fatalf("the resolution got %d %s", got.status, got.body)
	}
	r.eventually("the job succeeds", func() bool { return r.get("/v1/jobs/"+job).field(t, "status") == "succeeded" })
	if got := r.do(ask); got.status != http.StatusOK || string(got.body) != stored {
		t.Errorf("the client got %d %s", got.status, got.body)
	}
}
