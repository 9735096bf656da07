package certify

import (
	"context"

	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/provider"
)

// AskingCounter returns a counter that asks the provider for its count of each prompt. The
// special tokens of the model are not known: prompts are searched for what looks like one.
func AskingCounter(name string, t provider.TokenCounter) contract.Counter {
	return askingCounter{name, t}
}

type askingCounter struct {
	name  string
	asked provider.TokenCounter
}

// Name implements [contract.Counter].
func (c askingCounter) Name() string { return c.name }

// Count implements [contract.Counter].
func (c askingCounter) Count(ctx context.Context, p contract.Prompt) (int, error) {
	return c.asked.CountTokens(ctx, provider.Prompt{System: p.System, User: p.User})
}

// SpecialTokens implements [contract.Counter].
func (c askingCounter) SpecialTokens() []string { return nil }
