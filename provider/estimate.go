package provider

import "github.com/onejob/onejob"

// EstimateUsage counts what a call used whose answer does not say: the tokens of the input
// and of the result by [onejob.TokensIn]. It errs on both sides and is marked as estimated:
// whoever books it knows that the provider did not count it.
func EstimateUsage(inputBytes, resultBytes int) *Usage {
	return &Usage{InputTokens: onejob.TokensIn(inputBytes), OutputTokens: onejob.TokensIn(resultBytes), Estimated: true}
}
