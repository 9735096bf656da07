package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/onejob/onejob/provider"
)

var _ provider.TokenCounter = (*Adapter)(nil)

// counted is what a prompt is counted by: the vendor takes nothing there that only an answer
// depends on.
type counted struct {
	Model    string          `json:"model"`
	System   string          `json:"system,omitempty"`
	Messages []promptMessage `json:"messages"`
	Output   map[string]any  `json:"output_config,omitempty"`
}

// CountTokens implements [provider.TokenCounter]. It costs nothing.
func (a *Adapter) CountTokens(ctx context.Context, p provider.Prompt) (int, error) {
	asked := counted{Model: a.model, System: p.System, Messages: []promptMessage{{"user", p.User}}}
	if p.ResponseFormat == provider.FormatJSONSchema {
		asked.Output = map[string]any{"format": map[string]any{"type": provider.FormatJSONSchema, "schema": p.Schema}}
	}
	body, err := json.Marshal(asked)
	if err != nil {
		return 0, err
	}
	contact := a.contact(ctx, func(ctx context.Context, options ...option.RequestOption) error {
		return a.client.Post(ctx, "v1/messages/count_tokens", body, nil, options...)
	})
	if contact.Received == nil {
		return 0, fmt.Errorf("the provider did not count the tokens: %s", contact.Unanswered.Detail)
	}
	if status := contact.Status(); status != http.StatusOK {
		return 0, fmt.Errorf("the provider did not count the tokens: it answered with status %d", status)
	}
	var count struct {
		InputTokens int `json:"input_tokens"`
	}
	if json.Unmarshal(contact.Received.Body, &count) != nil || count.InputTokens <= 0 {
		return 0, errors.New("the provider did not count the tokens: its answer has no input_tokens")
	}
	return count.InputTokens, nil
}
