package api

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// openai is the format of OpenAI's chat completions.
func (d *Door) openai(v VendorDoor) *vendor {
	return &vendor{
		VendorDoor:  v,
		credentials: func(h http.Header) http.Header { return h },
		stream:      completionStream,
		failure: func(f vendorFailure) any {
			kind := "invalid_request_error"
			if f.status >= http.StatusInternalServerError {
				kind = "server_error"
			}
			return map[string]any{"error": map[string]any{"message": f.message, "type": kind, "param": nil, "code": f.code}}
		},
	}
}

// completion is a whole chat completion, as far as a stream takes it apart.
type completion struct {
	ID                json.RawMessage `json:"id"`
	Created           json.RawMessage `json:"created"`
	Model             json.RawMessage `json:"model"`
	ServiceTier       json.RawMessage `json:"service_tier"`
	SystemFingerprint json.RawMessage `json:"system_fingerprint"`
	Choices           []struct {
		Index        int                        `json:"index"`
		Message      map[string]json.RawMessage `json:"message"`
		Logprobs     json.RawMessage            `json:"logprobs"`
		FinishReason json.RawMessage            `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
}

// chunk is a part of a completion's stream.
func (c completion) chunk(choices []any, usage json.RawMessage) vendorEvent {
	part := map[string]any{"id": c.ID, "object": "chat.completion.chunk", "created": c.Created, "model": c.Model, "choices": choices}
	for name, value := range map[string]json.RawMessage{"service_tier": c.ServiceTier, "system_fingerprint": c.SystemFingerprint, "usage": usage} {
		if value != nil {
			part[name] = value
		}
	}
	return vendorEvent{data: part}
}

// completionStream is the whole completion as a stream of two chunks for each choice: its message,
// and its end.
func completionStream(result []byte, withUsage bool) (events []vendorEvent, err error) {
	var c completion
	if err := json.Unmarshal(result, &c); err != nil {
		return nil, err
	}
	for _, choice := range c.Choices {
		if calls, ok := choice.Message["tool_calls"]; ok {
			if choice.Message["tool_calls"], err = numbered(calls); err != nil {
				return nil, err
			}
		}
		events = append(events, c.chunk([]any{map[string]any{"index": choice.Index, "delta": choice.Message, "logprobs": choice.Logprobs, "finish_reason": nil}}, nil))
		events = append(events, c.chunk([]any{map[string]any{"index": choice.Index, "delta": map[string]any{}, "finish_reason": choice.FinishReason}}, nil))
	}
	if withUsage {
		events = append(events, c.chunk([]any{}, c.Usage))
	}
	return append(events, vendorEvent{data: "[DONE]"}), nil
}

// numbered gives each tool call its index, which only a stream has.
func numbered(calls json.RawMessage) (json.RawMessage, error) {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(calls, &all); err != nil || all == nil {
		return calls, err
	}
	for i := range all {
		all[i]["index"] = json.RawMessage(strconv.Itoa(i))
	}
	return json.Marshal(all)
}
