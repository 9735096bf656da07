package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/onejob/onejob/provider"
)

var _ provider.Prompter = (*Adapter)(nil)

// Versions of the two APIs, raised when [Adapter.Prompted] or [Adapter.Reply] changes.
const (
	chatVersion     = "openai/chat/1"
	responseVersion = "openai/responses/1"
)

// replySchema names the schema of a reply to the vendor, which wants a name.
const replySchema = "reply"

// Prompted implements [provider.Prompter].
func (a *Adapter) Prompted(p provider.Prompt) (json.RawMessage, error) { return a.api.prompted(p) }

// Reply implements [provider.Prompter].
func (a *Adapter) Reply(result json.RawMessage) (provider.Reply, error) { return a.api.reply(result) }

// Version implements [provider.Prompter].
func (a *Adapter) Version() string { return a.api.version }

// VersionOf returns the version of the adapters that speak the API; empty: [Chat].
func VersionOf(api string) string {
	if api == Responses {
		return responseVersion
	}
	return chatVersion
}

type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatPrompt struct {
	Messages    []chatMessage  `json:"messages"`
	Temperature *float64       `json:"temperature,omitempty"`
	MaxTokens   int            `json:"max_completion_tokens"`
	Seed        *int64         `json:"seed,omitempty"`
	Format      map[string]any `json:"response_format"`
}

func promptChat(p provider.Prompt) (json.RawMessage, error) {
	format := map[string]any{"type": p.ResponseFormat}
	if p.ResponseFormat == provider.FormatJSONSchema {
		format["json_schema"] = map[string]any{"name": replySchema, "schema": p.Schema}
	}
	return json.Marshal(chatPrompt{
		Messages:    []chatMessage{{"system", p.System}, {"user", p.User}},
		Temperature: p.Temperature, MaxTokens: p.MaxTokens, Seed: p.Seed, Format: format,
	})
}

func chatReply(result json.RawMessage) (provider.Reply, error) {
	var completion sdk.ChatCompletion
	if err := json.Unmarshal(result, &completion); err != nil {
		return provider.Reply{}, fmt.Errorf("the result is no chat completion: %w", err)
	}
	if n := len(completion.Choices); n != 1 {
		return provider.Reply{}, fmt.Errorf("the completion has %d choices, and one was asked for", n)
	}
	choice := completion.Choices[0]
	return provider.Reply{Text: []byte(choice.Message.Content), End: choice.FinishReason}, nil
}

// responsePrompt has no seed: the API knows none.
type responsePrompt struct {
	Instructions string         `json:"instructions"`
	Input        string         `json:"input"`
	Temperature  *float64       `json:"temperature,omitempty"`
	MaxTokens    int            `json:"max_output_tokens"`
	Text         map[string]any `json:"text"`
}

func promptResponse(p provider.Prompt) (json.RawMessage, error) {
	format := map[string]any{"type": p.ResponseFormat}
	if p.ResponseFormat == provider.FormatJSONSchema {
		format["name"], format["schema"] = replySchema, p.Schema
	}
	return json.Marshal(responsePrompt{
		Instructions: p.System, Input: p.User,
		Temperature: p.Temperature, MaxTokens: p.MaxTokens, Text: map[string]any{"format": format},
	})
}

func responseReply(result json.RawMessage) (provider.Reply, error) {
	var response responses.Response
	if err := json.Unmarshal(result, &response); err != nil {
		return provider.Reply{}, fmt.Errorf("the result is no response: %w", err)
	}
	var end string
	switch response.Status {
	case responses.ResponseStatusCompleted:
		end = completed
	case responses.ResponseStatusIncomplete:
		end = response.IncompleteDetails.Reason
	default:
		return provider.Reply{}, errors.New("the result is no response that came to an end")
	}
	return provider.Reply{Text: []byte(written(response)), End: end}, nil
}

// written is what the model wrote for people, without its reasoning and its calls of tools.
func written(response responses.Response) string {
	var text strings.Builder
	for _, item := range response.Output {
		for _, part := range item.Content {
			if item.Type == "message" && part.Type == "output_text" {
				text.WriteString(part.Text)
			}
		}
	}
	return text.String()
}
