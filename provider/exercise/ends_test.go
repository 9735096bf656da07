package exercise_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/anthropic"
	"github.com/onejob/onejob/provider/openai"
)

// end is a whole 2xx that ended in another way than a result does.
type end struct {
	edits  []string // of the recorded reply: old, new, …
	code   string   // in front of the detail
	reason onejob.Reason
}

const violation = onejob.ReasonContractViolation

// ends are the ends that the vendors document, by subject.
var ends = map[string]map[string]end{
	"openai chat": {
		"length":            {[]string{`"finish_reason": "stop"`, `"finish_reason": "length"`}, "length", violation},
		"content filter":    {[]string{`"finish_reason": "stop"`, `"finish_reason": "content_filter"`}, "content_filter", violation},
		"refusal":           {[]string{`"content": "Good morning.", "refusal": null`, `"content": null, "refusal": "I cannot."`}, "refusal", violation},
		"no choice":         {[]string{chatChoices(), `"choices": []`}, "no_choice", violation},
		"null choices":      {[]string{chatChoices(), `"choices": null`}, "no_choice", violation},
		"no finish reason":  {[]string{`"finish_reason": "stop"`, `"finish_reason": null`}, "no_finish_reason", violation},
		"a server's abort":  {[]string{`"finish_reason": "stop"`, `"finish_reason": "abort"`}, "abort", violation},
		"error in a choice": {[]string{`"finish_reason": "stop"`, `"finish_reason": "error", "error": {"code": 502}`}, "error", violation},
		"second choice cut": {[]string{`"choices": [`, `"choices": [{"index": 1, "message": {"role": "assistant", "content": "Go"}, "finish_reason": "length"},`}, "length", violation},
	},
	"openai responses": {
		"length":            {[]string{`"completed",`, `"incomplete",`, `"incomplete_details": null`, `"incomplete_details": {"reason": "max_output_tokens"}`}, "max_output_tokens", violation},
		"content filter":    {[]string{`"completed",`, `"incomplete",`, `"incomplete_details": null`, `"incomplete_details": {"reason": "content_filter"}`}, "content_filter", violation},
		"incomplete":        {[]string{`"completed",`, `"incomplete",`}, "incomplete", violation},
		"refusal":           {[]string{`{"type": "output_text", "text": "Good morning.", "annotations": [], "logprobs": []}`, `{"type": "refusal", "refusal": "I cannot."}`}, "refusal", violation},
		"no output":         {[]string{`"output": [`, `"output": [], "x": [`}, "no_output", violation},
		"failed":            {[]string{`"completed",`, `"failed",`, `"error": null`, `"error": {"code": "server_error", "message": "no"}`}, "server_error", onejob.ReasonProviderFailed},
		"failed, no error":  {[]string{`"completed",`, `"failed",`}, "failed", onejob.ReasonProviderFailed},
		"failed, bad image": {[]string{`"completed",`, `"failed",`, `"error": null`, `"error": {"code": "invalid_image", "message": "no"}`}, "invalid_image", onejob.ReasonProviderFailed},
		"failed, no quota":  {[]string{`"completed",`, `"failed",`, `"error": null`, `"error": {"code": "insufficient_quota", "message": "no"}`}, "insufficient_quota", onejob.ReasonProviderQuota},
		"cancelled":         {[]string{`"completed",`, `"cancelled",`}, "cancelled", onejob.ReasonProviderCancelled},
	},
	"anthropic messages": {
		"length":         {[]string{`"end_turn"`, `"max_tokens"`}, "max_tokens", violation},
		"context window": {[]string{`"end_turn"`, `"model_context_window_exceeded"`}, "model_context_window_exceeded", violation},
		"refusal":        {[]string{`"end_turn"`, `"refusal"`, `"stop_details": null`, `"stop_details": {"type": "refusal", "category": "cyber", "explanation": "no"}`}, "refusal", violation},
		"paused turn":    {[]string{`"end_turn"`, `"pause_turn"`}, "pause_turn", violation},
		"no stop reason": {[]string{`"end_turn"`, `null`}, "no_stop_reason", violation},
		"no content":     {[]string{`"content": [{"type": "text", "text": "Good morning."}]`, `"content": []`}, "no_content", violation},
		"one to come":    {[]string{`"end_turn"`, `"brand_new"`}, "brand_new", violation},
	},
}

func chatChoices() string {
	reply := recorded("chat.json")
	from, to := strings.Index(reply, `"choices"`), strings.Index(reply, `,
  "usage"`)
	return reply[from:to]
}

func edited(t *testing.T, text string, edits []string) string {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the reply does not have %s", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

func TestAnswerThatEndedOtherwiseIsNoResultAndIsBooked(t *testing.T) {
	t.Parallel()
	for name, all := range ends {
		s := subjects[name]
		for end, e := range all {
			t.Run(name+"/"+end, func(t *testing.T) {
				t.Parallel()
				server := httptest.NewServer(reply{status: 200, body: edited(t, s.reply, e.edits)})
				t.Cleanup(server.Close)
				got := s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL}))
				want := failed(e.reason)
				want.Usage = s.want.Usage
				mustBe(t, got, want)
				if code, _, _ := strings.Cut(got.Detail, ":"); code != e.code {
					t.Errorf("detail %q does not begin with %s", got.Detail, e.code)
				}
			})
		}
	}
}

// whole are further ends that are results, without any configuration.
var whole = map[string]map[string][]string{
	"openai chat": {
		"tool calls":    {`"finish_reason": "stop"`, `"finish_reason": "tool_calls"`},
		"function call": {`"finish_reason": "stop"`, `"finish_reason": "function_call"`},
		"error null":    {`"created"`, `"error": null, "created"`},
		"without tiers": {`"service_tier": "default",`, ``},
	},
	"anthropic messages": {
		"stop sequence": {`"end_turn"`, `"stop_sequence"`},
		"tool use":      {`"end_turn"`, `"tool_use"`},
	},
}

func TestAnswerOfAToolIsAResult(t *testing.T) {
	t.Parallel()
	for name, all := range whole {
		s := subjects[name]
		for _, edits := range all {
			s.check(t, reply{status: 200, body: edited(t, s.reply, edits)}, settings{}, s.want)
		}
	}
}

func TestAcceptedEndsAreConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open func(settings) (adapterUnderTest, error)
		end  end
		none []string // an end that is a result without the configuration
	}{
		"openai chat":        {openOpenAI(openai.Config{Accept: []string{"length"}}), ends["openai chat"]["length"], []string{}},
		"openai responses":   {openOpenAI(openai.Config{API: openai.Responses, Accept: []string{"max_output_tokens"}}), ends["openai responses"]["length"], []string{}},
		"anthropic messages": {openAnthropic(anthropic.Config{Accept: []string{"max_tokens"}}), ends["anthropic messages"]["length"], []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := subjects[name]
			s.open = c.open
			s.check(t, reply{status: 200, body: edited(t, s.reply, c.end.edits)}, settings{}, s.want)
			refused := failed(violation)
			refused.Usage = s.want.Usage
			s.check(t, reply{status: 200, body: s.reply}, settings{}, refused)
		})
	}
}

// A body that is JSON and no answer of the API may come from anything on the way.
func TestAnotherAPIsAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	for name, s := range subjects {
		if name == "http" {
			continue // it takes any JSON
		}
		for _, body := range []string{`{}`, `[]`, `"ok"`, `{"status":"ok"}`, `{"status":"completed"}`, `{"status":"failed"}`, `{"object":"response"}`, `{"object":"response","status":"brand_new"}`, `{"type":"message_batch","id":""}`, runReply} {
			server := httptest.NewServer(reply{status: 200, body: body})
			got := s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL}))
			if got.Certainty != provider.Unknown || got.Reason != onejob.ReasonUnreadable {
				t.Errorf("%s takes %s as %+v", name, body, got)
			}
			server.Close()
		}
	}
}
