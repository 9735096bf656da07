package openai

import (
	"cmp"
	"context"
	"encoding/json"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// wholeChat are the ends of a whole answer.
var wholeChat = verdict.Ends{"stop", "tool_calls", "function_call"}

// Codes of ends that the vendor has no word for.
const (
	noChoice       = "no_choice"
	noFinishReason = "no_finish_reason"
	refusal        = "refusal"
)

func (a *Adapter) chat(c Config) api {
	accepted := verdict.Ends(c.Accept).Or(wholeChat)
	read := func(m verdict.Message) (provider.Answer, bool) {
		ends := chatEnds(m)
		return accepted.Judge(m.Body, ends...), ends != nil
	}
	return api{
		create: func(ctx context.Context, options []option.RequestOption) error {
			_, err := a.completions.New(ctx, sdk.ChatCompletionNewParams{}, options...)
			return err
		},
		whole:   wholeCompletion,
		sample:  `{"messages":[{"role":"user","content":"Say ok."}]}`,
		answers: verdict.API{Read: read, Usage: chatCounts.Read},

		prompted: promptChat, reply: chatReply,
	}
}

// chatEnds returns the ends of a completion's choices, none if the message is no
// completion.
func chatEnds(m verdict.Message) []string {
	var completion sdk.ChatCompletion
	if m.Failed || m.Member("choices") == nil || json.Unmarshal(m.Body, &completion) != nil {
		return nil
	}
	if len(completion.Choices) == 0 {
		return []string{noChoice}
	}
	var ends []string
	for _, choice := range completion.Choices {
		if choice.Message.Refusal != "" {
			ends = append(ends, refusal)
		}
		ends = append(ends, cmp.Or(choice.FinishReason, noFinishReason))
	}
	return ends
}

var chatCounts = verdict.Counts{
	"usage.prompt_tokens":                              func(u *provider.Usage, n int64) { u.InputTokens = n },
	"usage.prompt_tokens_details.cached_tokens":        func(u *provider.Usage, n int64) { u.CachedInputTokens = n },
	"usage.prompt_cache_hit_tokens":                    func(u *provider.Usage, n int64) { u.CachedInputTokens = n }, // DeepSeek
	"usage.completion_tokens":                          func(u *provider.Usage, n int64) { u.OutputTokens = n },
	"usage.completion_tokens_details.reasoning_tokens": func(u *provider.Usage, n int64) { u.ReasoningTokens = n },
}
