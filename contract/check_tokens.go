package contract

import (
	"context"
	"errors"

	"github.com/onejob/onejob/internal/yamlfile"
)

// CheckTokens renders each case and the canary for a model with the tokenizer and a context
// of window tokens: special tokens, round trip, size. It returns the tokens of the longest
// prompt.
func (c *Contract) CheckTokens(ctx context.Context, t Tokenizer, window int) (longest int, problems Problems) {
	for _, k := range append(c.Cases[:len(c.Cases):len(c.Cases)], c.Canary) {
		tokens, err := c.checkTokens(ctx, k, t, window)
		longest = max(longest, tokens)
		if f, ok := errors.AsType[Finding](err); ok {
			problems = append(problems, Problem{File: k.file, Line: k.line, Text: "case " + yamlfile.Quoted(k.Name) + ": " + f.Detail})
		}
	}
	return longest, problems
}

// checkTokens returns the tokens of a case's prompt. The error is a [Finding].
func (c *Contract) checkTokens(ctx context.Context, k Case, t Tokenizer, window int) (int, error) {
	p, err := c.RenderCase(k, t)
	if err != nil {
		return 0, err
	}
	if err := RoundTrip(t, p); err != nil {
		return 0, err
	}
	return c.Fits(ctx, p, t, window)
}
