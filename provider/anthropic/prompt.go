package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/onejob/onejob/provider"
)

var _ provider.Prompter = (*Adapter)(nil)

// Versions of the two APIs, raised when [Adapter.Prompted] or [Adapter.Reply] changes.
const (
	messageVersion = "anthropic/messages/1"
	batchVersion   = "anthropic/batch/1"
)

// prompt has no seed and no format of any JSON object: the API knows neither.
type prompt struct {
	MaxTokens   int             `json:"max_tokens"`
	System      string          `json:"system,omitempty"` // an empty one is refused
	Messages    []promptMessage `json:"messages"`
	Temperature *float64        `json:"temperature,omitempty"`
	Output      map[string]any  `json:"output_config,omitempty"`
}

type promptMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Prompted implements [provider.Prompter].
func (a *Adapter) Prompted(p provider.Prompt) (json.RawMessage, error) {
	asked := prompt{
		MaxTokens: p.MaxTokens, System: p.System, Temperature: p.Temperature,
		Messages: []promptMessage{{"user", p.User}},
	}
	if p.ResponseFormat == provider.FormatJSONSchema {
		asked.Output = map[string]any{"format": map[string]any{"type": provider.FormatJSONSchema, "schema": p.Schema}}
	}
	return json.Marshal(asked)
}

// Reply implements [provider.Prompter].
func (a *Adapter) Reply(result json.RawMessage) (provider.Reply, error) {
	var message sdk.Message
	if err := json.Unmarshal(result, &message); err != nil {
		return provider.Reply{}, fmt.Errorf("the result is no message: %w", err)
	}
	if message.Type != "message" {
		return provider.Reply{}, errors.New("the result is no message")
	}
	var text strings.Builder
	for _, block := range message.Content {
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	return provider.Reply{Text: []byte(text.String()), End: string(message.StopReason)}, nil
}

// Version implements [provider.Prompter].
func (a *Adapter) Version() string { return a.version }

// VersionOf returns the version of the adapters that speak the API; empty: [Messages].
func VersionOf(api string) string {
	if api == Batch {
		return batchVersion
	}
	return messageVersion
}
