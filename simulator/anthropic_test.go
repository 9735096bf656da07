package simulator_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/onejob/onejob/simulator"
)

// The client of these tests is Anthropic's own.

func (r *rig) anthropic(job string, opts ...option.RequestOption) *anthropic.Client {
	client := anthropic.NewClient(append([]option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithBaseURL(r.url + "/anthropic/claude"), option.WithAPIKey("key"),
		option.WithHTTPClient(r.http), option.WithMaxRetries(0),
		option.WithHeader("Onejob-Job", job), option.WithHeader("Onejob-Attempt", "1"),
	}, opts...)...)
	return &client
}

// simulating puts directives into the body of an Anthropic request.
func simulating(directives string) option.RequestOption {
	return option.WithJSONSet("simulate", json.RawMessage(directives))
}

var messageParams = anthropic.MessageNewParams{
	Model: "m-large", MaxTokens: 100,
	Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
}

func TestMessageIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got, err := r.anthropic("j").Messages.New(t.Context(), messageParams,
		simulating(`{"only":"claude","answer":"hi","model":"m-served","usage":{"input_tokens":9,"cached_input_tokens":4,"output_tokens":5,"reasoning_tokens":3}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Content) != 1 || got.Content[0].Text != "hi" || got.StopReason != "end_turn" || got.Model != "m-served" {
		t.Errorf("%s", got.RawJSON())
	}
	u := got.Usage
	if u.InputTokens != 5 || u.CacheReadInputTokens != 4 || u.OutputTokens != 5 || u.OutputTokensDetails.ThinkingTokens != 3 {
		t.Errorf("%s", u.RawJSON())
	}
	r.mustCount(simulator.Subject{Job: "j", Attempt: 1}, 1, 1)
}

func TestMessageEndsAsDirected(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]string{
		`{"end":"length","answer":{"a":1}}`:       `max_tokens|{"a`,
		`{"end":"refusal"}`:                       `refusal|I cannot help with that.`,
		`{"end":"content_filter"}`:                `refusal`,
		`{"end":"empty"}`:                         `end_turn`,
		`{"end":"tool_calls"}`:                    `tool_use|`,
		`{"end":"model_context_window_exceeded"}`: `model_context_window_exceeded|done`,
	} {
		got, err := r.anthropic("j").Messages.New(t.Context(), messageParams, simulating(directives))
		if err != nil {
			t.Fatal(err)
		}
		told := string(got.StopReason)
		for _, block := range got.Content {
			told += "|" + block.Text
		}
		if told != want {
			t.Errorf("%s: %q, want %q", directives, told, want)
		}
	}
}

func TestAnthropicErrorsHaveTheirTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]struct {
		status int
		kind   anthropic.ErrorType
		code   anthropic.ErrorCode
	}{
		`{"status":400}`: {400, "invalid_request_error", ""},
		`{"status":401}`: {401, "authentication_error", ""},
		`{"status":402}`: {402, "billing_error", ""},
		`{"status":403}`: {403, "permission_error", ""},
		`{"status":404}`: {404, "not_found_error", ""},
		`{"status":409}`: {409, "conflict_error", ""},
		`{"status":413}`: {413, "request_too_large", ""},
		`{"status":429}`: {429, "rate_limit_error", ""},
		`{"status":500}`: {500, "api_error", ""},
		`{"status":504}`: {504, "timeout_error", ""},
		`{"status":529}`: {529, "overloaded_error", ""},
		`{"status":429,"error_code":"enforced_spend_limit_reached"}`: {429, "rate_limit_error", "enforced_spend_limit_reached"},
		`{"status":400,"error_code":"billing_error"}`:                {400, "billing_error", ""},
	} {
		_, err := r.anthropic("j").Messages.New(t.Context(), messageParams, simulating(directives))
		got, ok := errors.AsType[*anthropic.Error](err)
		if !ok || got.StatusCode != want.status || got.Type() != want.kind || got.ErrorCode() != want.code || got.RequestID == "" {
			t.Errorf("%s: %v", directives, err)
		}
	}
}

func TestAnthropicRefusesBadKeyAndUnknownModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	bad := r.anthropic("j", option.WithAPIKey("bad"))
	_, err := bad.Messages.New(t.Context(), messageParams)
	_, listing := bad.Models.List(t.Context(), anthropic.ModelListParams{})
	unknown := messageParams
	unknown.Model = "unknown-1"
	_, absent := r.anthropic("j").Messages.New(t.Context(), unknown)
	_, gone := r.anthropic("j").Models.Get(t.Context(), "unknown-1", anthropic.ModelGetParams{})
	for _, c := range []struct {
		err    error
		status int
	}{{err, 401}, {listing, 401}, {absent, 404}, {gone, 404}} {
		if got, ok := errors.AsType[*anthropic.Error](c.err); !ok || got.StatusCode != c.status {
			t.Errorf("%v", c.err)
		}
	}
}

func TestAnthropicTellsModelsAndCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	page, err := r.anthropic("j").Models.List(t.Context(), anthropic.ModelListParams{})
	if err != nil || len(page.Data) == 0 || page.Data[0].ID == "" {
		t.Errorf("%+v, error %v", page, err)
	}
	if one, err := r.anthropic("j").Models.Get(t.Context(), "any", anthropic.ModelGetParams{}); err != nil || one.ID != "any" {
		t.Errorf("%+v, error %v", one, err)
	}
	count, err := r.anthropic("j").Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: "m-large", Messages: messageParams.Messages})
	if err != nil || count.InputTokens == 0 {
		t.Errorf("%+v, error %v", count, err)
	}
}

func TestMessageStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, want := range map[string]struct {
		text, reason, last string
		fails              bool
	}{
		`{"answer":"hello"}`:                  {"hello", "end_turn", "message_stop", false},
		`{"answer":"hello","cut_stream":1}`:   {"hello", "end_turn", "message_delta", false},
		`{"answer":"hello","cut_stream":3}`:   {"hello", "", "content_block_delta", false},
		`{"answer":"hello","cut_body":true}`:  {"he", "", "content_block_delta", true},
		`{"answer":"hello","end":"length"}`:   {"he", "max_tokens", "message_stop", false},
		`{"stream_error":"overloaded_error"}`: {"do", "", "content_block_delta", true},
		`{"end":"tool_calls"}`:                {"", "tool_use", "message_stop", false},
	} {
		stream := r.anthropic("j").Messages.NewStreaming(t.Context(), messageParams, simulating(directives))
		var all anthropic.Message
		last := ""
		for stream.Next() {
			event := stream.Current()
			last = event.Type
			if err := all.Accumulate(event); err != nil {
				t.Errorf("%s: %v", directives, err)
			}
		}
		text := ""
		for _, block := range all.Content {
			text += block.Text
		}
		if text != want.text || string(all.StopReason) != want.reason || last != want.last || (stream.Err() != nil) != want.fails {
			t.Errorf("%s: %q, %q, %q, %v", directives, text, all.StopReason, last, stream.Err())
		}
	}
}

func (r *rig) mustMakeBatch(client *anthropic.Client, directives string) *anthropic.MessageBatch {
	r.t.Helper()
	made, err := client.Messages.Batches.New(r.t.Context(), anthropic.MessageBatchNewParams{
		Requests: []anthropic.MessageBatchNewParamsRequest{{
			CustomID: "attempt-1",
			Params: anthropic.MessageBatchNewParamsRequestParams{
				Model: messageParams.Model, MaxTokens: messageParams.MaxTokens, Messages: messageParams.Messages,
			},
		}},
	}, option.WithJSONSet("requests.0.params.simulate", json.RawMessage(directives)))
	if err != nil || made.ProcessingStatus != "in_progress" || made.RequestCounts.Processing != 1 || !strings.HasPrefix(made.ID, "msgbatch_") {
		r.t.Fatalf("%+v, error %v", made, err)
	}
	return made
}

func TestBatchIsPolledForItsResults(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	client := r.anthropic("j")
	made := r.mustMakeBatch(client, `{"run_until":"gate","answer":"hi"}`)
	if results := client.Messages.Batches.ResultsStreaming(t.Context(), made.ID, anthropic.MessageBatchResultsParams{}); results.Next() || results.Err() == nil {
		t.Errorf("results of a batch that runs: %+v, error %v", results.Current(), results.Err())
	}
	r.mustRelease("gate")
	r.mustAwaitExecution("j")
	got, err := client.Messages.Batches.Get(t.Context(), made.ID, anthropic.MessageBatchGetParams{})
	if err != nil || got.ProcessingStatus != "ended" || got.RequestCounts.Succeeded != 1 || got.ResultsURL != r.url+"/anthropic/claude/v1/messages/batches/"+made.ID+"/results" {
		t.Errorf("%+v, error %v", got, err)
	}
	results := client.Messages.Batches.ResultsStreaming(t.Context(), made.ID, anthropic.MessageBatchResultsParams{})
	if !results.Next() {
		t.Fatal(results.Err())
	}
	line := results.Current()
	if line.CustomID != "attempt-1" || line.Result.Type != "succeeded" || line.Result.Message.Content[0].Text != "hi" {
		t.Errorf("%s", line.RawJSON())
	}
}

func TestBatchErrs(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	client := r.anthropic("j")
	made := r.mustMakeBatch(client, `{"outcome":"failed"}`)
	r.mustAwaitExecution("j")
	results := client.Messages.Batches.ResultsStreaming(t.Context(), made.ID, anthropic.MessageBatchResultsParams{})
	if !results.Next() {
		t.Fatal(results.Err())
	}
	if line := results.Current(); line.Result.Type != "errored" || line.Result.Error.Error.Type != "invalid_request_error" {
		t.Errorf("%s", line.RawJSON())
	}
}

func TestBatchIsCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	client := r.anthropic("j")
	made := r.mustMakeBatch(client, `{"run_until":"gate"}`)
	got, err := client.Messages.Batches.Cancel(t.Context(), made.ID, anthropic.MessageBatchCancelParams{})
	if err != nil || got.ProcessingStatus != "canceling" {
		t.Errorf("%+v, error %v", got, err)
	}
	ended, err := client.Messages.Batches.Get(t.Context(), made.ID, anthropic.MessageBatchGetParams{})
	if err != nil || ended.ProcessingStatus != "ended" || ended.RequestCounts.Canceled != 1 {
		t.Errorf("%+v, error %v", ended, err)
	}
	_, late := client.Messages.Batches.Cancel(t.Context(), made.ID, anthropic.MessageBatchCancelParams{})
	if refused, ok := errors.AsType[*anthropic.Error](late); !ok || refused.StatusCode != 409 {
		t.Errorf("%v", late)
	}
	r.mustCount(simulator.Subject{Job: "j"}, 1, 0)
}
