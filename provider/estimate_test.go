package provider_test

import (
	"testing"

	"github.com/onejob/onejob/provider"
)

func TestEstimateIsMarkedAndRoundedUp(t *testing.T) {
	t.Parallel()
	for bytes, tokens := range map[int]int64{0: 0, 1: 1, 4: 1, 5: 2, 4000: 1000} {
		want := provider.Usage{InputTokens: tokens, Estimated: true}
		if got := provider.EstimateUsage(bytes, 0); *got != want {
			t.Errorf("%d bytes of input: %+v", bytes, got)
		}
		want = provider.Usage{OutputTokens: tokens, Estimated: true}
		if got := provider.EstimateUsage(0, bytes); *got != want {
			t.Errorf("%d bytes of result: %+v", bytes, got)
		}
	}
}
