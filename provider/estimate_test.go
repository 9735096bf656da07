package provider_test

import (
	"strings"
	"testing"

	"github.com/onejob/onejob/provider"
)

func TestEstimateIsMarkedAndRoundedUp(t *testing.T) {
	t.Parallel()
	for bytes, tokens := range map[int]int64{0: 0, 1: 1, 4: 1, 5: 2, 4000: 1000} {
		text := []byte(strings.Repeat("x", bytes))
		want := provider.Usage{InputTokens: tokens, Estimated: true}
		if got := provider.EstimateUsage(text, nil); *got != want {
			t.Errorf("%d bytes of input: %+v", bytes, got)
		}
		want = provider.Usage{OutputTokens: tokens, Estimated: true}
		if got := provider.EstimateUsage(nil, text); *got != want {
			t.Errorf("%d bytes of result: %+v", bytes, got)
		}
	}
}
