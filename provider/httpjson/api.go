package httpjson

import (
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// runs is the API of a call: the body of an answer is the result.
var runs = verdict.API{Read: result, Usage: counts.Read, Reference: reference}

func result(m verdict.Message) (provider.Answer, bool) {
	return provider.Answer{Certainty: provider.Succeeded, Result: m.Body}, !m.Failed
}

// reference is the body's id, else the header Location.
func reference(r verdict.Received, m verdict.Message) string {
	return verdict.FirstReference(m.ID, r.Header.Get("Location"))
}

// counts are the names of [provider.Usage].
var counts = verdict.Counts{
	"usage.input_tokens":        func(u *provider.Usage, n int64) { u.InputTokens = n },
	"usage.cached_input_tokens": func(u *provider.Usage, n int64) { u.CachedInputTokens = n },
	"usage.output_tokens":       func(u *provider.Usage, n int64) { u.OutputTokens = n },
	"usage.reasoning_tokens":    func(u *provider.Usage, n int64) { u.ReasoningTokens = n },
	"usage.images":              func(u *provider.Usage, n int64) { u.Images = n },
	"usage.milliseconds":        func(u *provider.Usage, n int64) { u.Milliseconds = n },
}
