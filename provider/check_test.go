package provider_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

func TestAnswersAreRecordableWhateverAnAdapterSays(t *testing.T) {
	t.Parallel()
	limits := onejob.Limits{ResultBytes: 20, Depth: 3}
	result := func(text string) provider.Answer {
		return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage(text)}
	}
	for name, c := range map[string]struct {
		said   provider.Answer
		want   provider.Certainty
		reason onejob.Reason
	}{
		"a result":             {result(`{"a":1,"a":2}`), provider.Succeeded, ""},
		"no result":            {result(``), provider.Unknown, onejob.ReasonUnreadable},
		"no JSON":              {result(`{`), provider.Unknown, onejob.ReasonUnreadable},
		"too long":             {result(`"12345678901234567890"`), provider.Unknown, onejob.ReasonUnreadable},
		"too deep":             {result(`[[[[1]]]]`), provider.Unknown, onejob.ReasonUnreadable},
		"no certainty":         {provider.Answer{Result: json.RawMessage(`1`)}, provider.Unknown, onejob.ReasonUnspecified},
		"failed, no reason":    {provider.Answer{Certainty: provider.Failed}, provider.Failed, onejob.ReasonUnspecified},
		"unknown, no reason":   {provider.Answer{Certainty: provider.Unknown}, provider.Unknown, onejob.ReasonUnspecified},
		"reason with NUL":      {provider.Answer{Certainty: provider.Failed, Reason: "a\x00"}, provider.Failed, onejob.ReasonUnspecified},
		"accepted":             {provider.Answer{Certainty: provider.Accepted, Reference: "r"}, provider.Accepted, ""},
		"accepted, no name":    {provider.Answer{Certainty: provider.Accepted}, provider.Unknown, onejob.ReasonUnspecified},
		"accepted, a NUL name": {provider.Answer{Certainty: provider.Accepted, Reference: "\x00"}, provider.Unknown, onejob.ReasonUnspecified},
	} {
		c.said.Detail = strings.Repeat("a\x00\n", 5000)
		c.said.RetryAfter = -1
		got := c.said.Checked(limits)
		if got.Certainty != c.want || got.Reason != c.reason {
			t.Errorf("%s: %s (%s), want %s (%s)", name, got.Certainty, got.Reason, c.want, c.reason)
		}
		if len(got.Detail) > 4096 || strings.ContainsAny(got.Detail, "\x00\n") || got.RetryAfter < 0 {
			t.Errorf("%s: detail of %d bytes, retry after %v", name, len(got.Detail), got.RetryAfter)
		}
		if got.Certainty != provider.Succeeded && got.Result != nil {
			t.Errorf("%s: keeps a result", name)
		}
	}
}

// A count that no call can have would make an amount that cannot be booked, and its outcome
// would be recorded never.
func TestUsageThatNoCallCanHaveWasNotTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage provider.Usage
		told  bool
	}{
		"nothing":      {provider.Usage{}, true},
		"a billion":    {provider.Usage{OutputTokens: 1_000_000_000}, true},
		"more":         {provider.Usage{Images: 1_000_000_001}, false},
		"below zero":   {provider.Usage{CachedInputTokens: -1}, false},
		"a NUL served": {provider.Usage{InputTokens: 1, Model: "a\x00"}, true},
	} {
		got := provider.Answer{Certainty: provider.Failed, Usage: &c.usage}.Checked(onejob.Limits{})
		if (got.Usage != nil) != c.told || got.Usage != nil && strings.Contains(got.Usage.Model, "\x00") {
			t.Errorf("%s: usage %+v", name, got.Usage)
		}
	}
}
