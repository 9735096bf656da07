package simulator_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/onejob/onejob/simulator"
)

// The client of these tests is OpenAI's own.

func (r *rig) openAI(job string, opts ...option.RequestOption) *openai.Client {
	client := openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(r.url + "/openai/gpt/v1"), option.WithAPIKey("key"), option.WithHTTPClient(r.http),
		option.WithMaxRetries(0), option.WithHeader("Onejob-Job", job), option.WithHeader("Onejob-Attempt", "1"),
	}, opts...)...)
	return &client
}

// directed puts directives into the body of an OpenAI request.
func directed(directives string) option.RequestOption {
	return option.WithJSONSet("simulate", json.RawMessage(directives))
}

var chatParams = openai.ChatCompletionNewParams{
	Model:    "m-large",
	Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
}

var responseParams = responses.ResponseNewParams{
	Model: "m-large", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("hello")},
}

func TestChatCompletionIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams,
		directed(`{"only":"gpt","answer":"hi","model":"m-served","usage":{"input_tokens":9,"cached_input_tokens":4,"output_tokens":5,"reasoning_tokens":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Choices) != 1 || got.Choices[0].Message.Content != "hi" || got.Choices[0].FinishReason != "stop" || got.Model != "m-served" {
		t.Errorf("%s", got.RawJSON())
	}
	u := got.Usage
	if u.PromptTokens != 9 || u.PromptTokensDetails.CachedTokens != 4 || u.CompletionTokens != 5 || u.CompletionTokensDetails.ReasoningTokens != 3 || u.TotalTokens != 14 {
		t.Errorf("%s", u.RawJSON())
	}
	r.mustCount(simulator.Subject{Job: "j", Attempt: 1}, 1, 1)
}

func TestChatCompletionEndsAsDirected(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]string{
		`{}`:                                  `stop|done||0`,
		`{"end":"length","answer":{"a":1}}`:   `length|{"a||0`,
		`{"end":"content_filter"}`:            `content_filter|||0`,
		`{"end":"refusal"}`:                   `stop||I cannot help with that.|0`,
		`{"end":"tool_calls"}`:                `tool_calls|||1`,
		`{"end":"empty"}`:                     ``,
		`{"end":"function_call"}`:             `function_call|done||0`,
		`{"only":"other","end":"tool_calls"}`: `stop|done||0`,
	} {
		got, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, directed(directives))
		if err != nil {
			t.Fatal(err)
		}
		told := ""
		for _, choice := range got.Choices {
			m := choice.Message
			told += choice.FinishReason + "|" + m.Content + "|" + m.Refusal + "|" + string(rune('0'+len(m.ToolCalls)))
		}
		if told != want {
			t.Errorf("%s: %q, want %q", directives, told, want)
		}
	}
}

func TestAnswerIsJSONWhereJSONIsAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	asking := option.WithJSONSet("response_format", json.RawMessage(`{"type":"json_object"}`))
	got, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, asking)
	if err != nil || got.Choices[0].Message.Content != `{"answer":"done"}` {
		t.Errorf("%+v, error %v", got, err)
	}
}

func TestUsageMayBeMissingOrTheVendors(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	none, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, directed(`{"usage":null}`))
	if err != nil || none.JSON.Usage.Valid() {
		t.Errorf("%+v, error %v", none, err)
	}
	own, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, directed(`{"usage":{"prompt_tokens":7}}`))
	if err != nil || own.Usage.PromptTokens != 7 {
		t.Errorf("%+v, error %v", own, err)
	}
}

func TestOpenAIErrorsHaveTheirCodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]openai.Error{
		`{"status":400}`: {StatusCode: 400, Type: "invalid_request_error"},
		`{"status":401}`: {StatusCode: 401, Type: "invalid_request_error", Code: "invalid_api_key"},
		`{"status":403}`: {StatusCode: 403, Type: "request_forbidden", Code: "unsupported_country_region_territory"},
		`{"status":429}`: {StatusCode: 429, Type: "requests", Code: "rate_limit_exceeded"},
		`{"status":429,"error_code":"insufficient_quota"}`: {StatusCode: 429, Type: "insufficient_quota", Code: "insufficient_quota"},
		`{"status":500}`: {StatusCode: 500, Type: "server_error"},
		`{"status":503}`: {StatusCode: 503, Type: "service_unavailable_error", Code: "server_is_overloaded"},
	} {
		_, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, directed(directives))
		got, ok := errors.AsType[*openai.Error](err)
		if !ok || got.StatusCode != want.StatusCode || got.Type != want.Type || got.Code != want.Code {
			t.Errorf("%s: %v", directives, err)
		}
	}
}

func TestHintAndUsageStandBesideAnError(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	_, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams,
		directed(`{"status":429,"retry_after":7,"usage":{"input_tokens":1},"error":{"code":"odd"}}`))
	got, ok := errors.AsType[*openai.Error](err)
	if !ok || got.Response.Header.Get("Retry-After") != "7" || got.Code != "odd" {
		t.Fatalf("%v", err)
	}
	if body, _ := io.ReadAll(got.Response.Body); !strings.Contains(string(body), `"usage":{"input_tokens":1}`) {
		t.Errorf("%s", body)
	}
}

func TestBadKeyAndUnknownModelAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	bad := r.openAI("j", option.WithAPIKey("bad"))
	_, err := bad.Chat.Completions.New(t.Context(), chatParams)
	_, listing := bad.Models.List(t.Context())
	unknown := chatParams
	unknown.Model = "unknown-1"
	_, absent := r.openAI("j").Chat.Completions.New(t.Context(), unknown)
	_, gone := r.openAI("j").Models.Get(t.Context(), "unknown-1")
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{{err, 401, "invalid_api_key"}, {listing, 401, "invalid_api_key"}, {absent, 404, "model_not_found"}, {gone, 404, "model_not_found"}} {
		if got, ok := errors.AsType[*openai.Error](c.err); !ok || got.StatusCode != c.status || got.Code != c.code {
			t.Errorf("%v", c.err)
		}
	}
	r.mustCount(simulator.Subject{Job: "j"}, 2, 0)
}

func TestModelsAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	page, err := r.openAI("j").Models.List(t.Context())
	if err != nil || len(page.Data) == 0 || page.Data[0].ID == "" {
		t.Errorf("%+v, error %v", page, err)
	}
	if one, err := r.openAI("j").Models.Get(t.Context(), "org/any"); err != nil || one.ID != "org/any" {
		t.Errorf("%+v, error %v", one, err)
	}
}

func TestChatCompletionStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]struct {
		text, reason string
		usage        int64
		fails        bool
	}{
		`{"answer":"hello"}`:                 {"hello", "stop", 16, false},
		`{"answer":"hello","cut_stream":2}`:  {"hello", "stop", 0, false}, // no usage, no [DONE]
		`{"answer":"hello","cut_stream":4}`:  {"he", "", 0, false},
		`{"answer":"hello","cut_body":true}`: {"hello", "", 0, true},
		`{"answer":"hello","end":"length"}`:  {"he", "length", 16, false},
		`{"stream_error":"server_error"}`:    {"done", "", 0, true},
	} {
		params := chatParams
		params.StreamOptions.IncludeUsage = param.NewOpt(true)
		stream := r.openAI("j").Chat.Completions.NewStreaming(t.Context(), params, directed(directives))
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			all.AddChunk(stream.Current())
		}
		if (stream.Err() != nil) != want.fails || len(all.Choices) != 1 {
			t.Fatalf("%s: %v, %+v", directives, stream.Err(), all)
		}
		if got := all.Choices[0]; got.Message.Content != want.text || got.FinishReason != want.reason || all.Usage.CompletionTokens != want.usage {
			t.Errorf("%s: %q, %q, %d", directives, got.Message.Content, got.FinishReason, all.Usage.CompletionTokens)
		}
	}
}

func TestStreamIsHeldInItsMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	stream := r.openAI("j").Chat.Completions.NewStreaming(t.Context(), chatParams, directed(`{"answer":"hello","hold_stream":"gate"}`))
	if !stream.Next() {
		t.Fatal(stream.Err())
	}
	r.mustRelease("gate")
	count := 1
	for stream.Next() {
		count++
	}
	if stream.Err() != nil || count != 4 {
		t.Errorf("%d events, error %v", count, stream.Err())
	}
}

func TestResponseIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got, err := r.openAI("j").Responses.New(t.Context(), responseParams,
		directed(`{"answer":"hi","usage":{"input_tokens":9,"cached_input_tokens":4,"output_tokens":5,"reasoning_tokens":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	u := got.Usage
	if got.Status != "completed" || got.OutputText() != "hi" || u.InputTokensDetails.CachedTokens != 4 || u.OutputTokensDetails.ReasoningTokens != 3 {
		t.Errorf("%s", got.RawJSON())
	}
	again, err := r.openAI("j").Responses.Get(t.Context(), got.ID, responses.ResponseGetParams{})
	if err != nil || again.OutputText() != "hi" || again.Status != "completed" {
		t.Errorf("%+v, error %v", again, err)
	}
	if _, err := r.openAI("j").Responses.Cancel(t.Context(), got.ID); err == nil {
		t.Error("a response of the foreground was cancelled")
	}
}

func TestResponseEndsAsDirected(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]string{
		`{"end":"length","answer":"hello"}`:                  `incomplete|max_output_tokens|he|1`,
		`{"end":"content_filter"}`:                           `incomplete|content_filter||0`,
		`{"end":"refusal"}`:                                  `completed|||1`,
		`{"end":"empty"}`:                                    `completed|||0`,
		`{"end":"tool_calls"}`:                               `completed|||1`,
		`{"outcome":"failed","error_code":"invalid_prompt"}`: `failed|||0`,
	} {
		got, err := r.openAI("j").Responses.New(t.Context(), responseParams, directed(directives))
		if err != nil {
			t.Fatal(err)
		}
		told := string(got.Status) + "|" + got.IncompleteDetails.Reason + "|" + got.OutputText() + "|" + string(rune('0'+len(got.Output)))
		if told != want {
			t.Errorf("%s: %q, want %q", directives, told, want)
		}
		if got.Status == "failed" && got.Error.Code != "invalid_prompt" {
			t.Errorf("%s", got.RawJSON())
		}
	}
}

func TestBackgroundResponseIsPolled(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	client, params := r.openAI("j"), responseParams
	params.Background = param.NewOpt(true)
	made, err := client.Responses.New(t.Context(), params, directed(`{"run_until":"gate","answer":"hi"}`))
	if err != nil || made.Status != "queued" || !strings.HasPrefix(made.ID, "resp_") {
		t.Fatalf("%+v, error %v", made, err)
	}
	for _, want := range []responses.ResponseStatus{"queued", "in_progress"} {
		if got, err := client.Responses.Get(t.Context(), made.ID, responses.ResponseGetParams{}); err != nil || got.Status != want || got.OutputText() != "" {
			t.Errorf("%+v, want %s, error %v", got, want, err)
		}
	}
	r.mustRelease("gate")
	r.mustAwaitExecution("j")
	got, err := client.Responses.Get(t.Context(), made.ID, responses.ResponseGetParams{})
	if err != nil || got.Status != "completed" || got.OutputText() != "hi" || got.CompletedAt == 0 {
		t.Errorf("%+v, error %v", got, err)
	}
	if late, err := client.Responses.Cancel(t.Context(), made.ID); err != nil || late.Status != "completed" {
		t.Errorf("a late cancel: %+v, error %v", late, err)
	}
	r.mustSee("succeeded", "/gpt/job/j/attempt/1")
}

func TestBackgroundResponseIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	client, params := r.openAI("j"), responseParams
	params.Background = param.NewOpt(true)
	made, err := client.Responses.New(t.Context(), params, directed(`{"run_until":"gate"}`))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := client.Responses.Cancel(t.Context(), made.ID); err != nil || got.Status != "cancelled" {
			t.Errorf("%+v, error %v", got, err)
		}
	}
	r.mustCount(simulator.Subject{Job: "j"}, 1, 0)
	if _, err := client.Responses.Get(t.Context(), "resp_none", responses.ResponseGetParams{}); err == nil {
		t.Error("found what is not there")
	}
}

func TestResponseStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]struct {
		text, last string
		fails      bool
	}{
		`{"answer":"hello"}`:                 {"hello", "response.completed", false},
		`{"answer":"hello","cut_stream":1}`:  {"hello", "response.output_item.done", false},
		`{"answer":"hello","end":"length"}`:  {"he", "response.incomplete", false},
		`{"outcome":"failed"}`:               {"", "response.failed", false},
		`{"answer":"hello","cut_body":true}`: {"he", "response.output_text.delta", true},
		`{"stream_error":"server_error"}`:    {"do", "error", false},
		`{"end":"tool_calls"}`:               {"", "response.completed", false},
	} {
		stream := r.openAI("j").Responses.NewStreaming(t.Context(), responseParams, directed(directives))
		text, last := "", ""
		for stream.Next() {
			event := stream.Current()
			if last = event.Type; last == "response.output_text.delta" {
				text += event.Delta
			}
		}
		if text != want.text || last != want.last || (stream.Err() != nil) != want.fails {
			t.Errorf("%s: %q, %q, %v", directives, text, last, stream.Err())
		}
	}
}

func TestVendorsCallLosesItsReply(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	if _, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, directed(`{"execute_then_drop":true}`)); err == nil {
		t.Error("answered")
	}
	r.mustCount(simulator.Subject{Job: "j"}, 1, 1)
	if got := r.mustLookUp("/gpt/job/j/attempt/1"); !strings.Contains(string(got.Result), "chat.completion") {
		t.Errorf("%+v", got)
	}
}

func TestPlanStrikesVendorsToo(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{Plan: simulator.Plan{Status: map[int]float64{http.StatusServiceUnavailable: 1}}})
	_, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams)
	if got, ok := errors.AsType[*openai.Error](err); !ok || got.Code != "server_is_overloaded" {
		t.Errorf("%v", err)
	}
}
