package openai

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// wholeResponse is the end of a whole response.
var wholeResponse = verdict.Ends{completed}

// Codes of ends; those of an incomplete response are the vendor's reasons.
const (
	completed  = string(responses.ResponseStatusCompleted)
	incomplete = string(responses.ResponseStatusIncomplete)
	noOutput   = "no_output"
)

func (a *Adapter) response(c Config) api {
	r := responseReader{accepted: verdict.Ends(c.Accept).Or(wholeResponse), certain: c.Certain}
	return api{
		create: func(ctx context.Context, options []option.RequestOption) error {
			_, err := a.responses.New(ctx, responses.ResponseNewParams{}, options...)
			return err
		},
		whole:   finalResponse,
		answers: verdict.API{Read: r.read, Usage: responseCounts.Read},
		asked:   true,
		sample:  `{"input":"Say ok."}`,

		prompted: promptResponse, reply: responseReply,
	}
}

type responseReader struct {
	accepted verdict.Ends
	certain  verdict.Certain
}

// read says what a response means, wherever it is in its life.
func (r responseReader) read(m verdict.Message) (provider.Answer, bool) {
	var response responses.Response
	if m.Text("object") != "response" || json.Unmarshal(m.Body, &response) != nil {
		return provider.Answer{}, false
	}
	switch response.Status {
	case responses.ResponseStatusQueued, responses.ResponseStatusInProgress:
		return underway(m, response.Status), true
	case responses.ResponseStatusCompleted:
		return r.accepted.Judge(m.Body, completedEnds(response)...), true
	case responses.ResponseStatusIncomplete:
		return r.accepted.Judge(m.Body, cmp.Or(response.IncompleteDetails.Reason, incomplete)), true
	case responses.ResponseStatusFailed:
		return r.certain.Failure(m), true
	case responses.ResponseStatusCancelled:
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonProviderCancelled, Detail: string(response.Status)}, true
	}
	return provider.Answer{}, false
}

func underway(m verdict.Message, status responses.ResponseStatus) provider.Answer {
	if reference := verdict.FirstReference(m.ID); reference != "" {
		return provider.Answer{Certainty: provider.Accepted, Reference: reference, Detail: string(status)}
	}
	return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonUnreadable, Detail: "it was taken and has no id"}
}

// completedEnds returns the ends of a response that says it is completed.
func completedEnds(response responses.Response) []string {
	if len(response.Output) == 0 {
		return []string{noOutput}
	}
	for _, item := range response.Output {
		for _, part := range item.Content {
			if part.Type == refusal {
				return []string{refusal}
			}
		}
	}
	return []string{completed}
}

var responseCounts = verdict.Counts{
	"usage.input_tokens":                           func(u *provider.Usage, n int64) { u.InputTokens = n },
	"usage.input_tokens_details.cached_tokens":     func(u *provider.Usage, n int64) { u.CachedInputTokens = n },
	"usage.output_tokens":                          func(u *provider.Usage, n int64) { u.OutputTokens = n },
	"usage.output_tokens_details.reasoning_tokens": func(u *provider.Usage, n int64) { u.ReasoningTokens = n },
}
