package provider

// bytesPerToken is how many bytes of JSON text the tokenizers of the day make one token
// of, in English prose; other scripts have fewer bytes to the token.
const bytesPerToken = 4

// EstimateUsage counts what a call used whose answer does not say: a token for every four
// bytes of the input and of the result, rounded up. It errs on both sides and is marked
// as estimated: whoever books it knows that the provider did not count it.
func EstimateUsage(inputBytes, resultBytes int) *Usage {
	return &Usage{InputTokens: tokensIn(inputBytes), OutputTokens: tokensIn(resultBytes), Estimated: true}
}

func tokensIn(bytes int) int64 { return (int64(bytes) + bytesPerToken - 1) / bytesPerToken }
