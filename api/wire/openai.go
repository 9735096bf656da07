package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// OpenAI is the format of OpenAI's chat completions.
var OpenAI = Format{
	Stream: completionStream,
	Failure: func(f Failure) any {
		kind := "invalid_request_error"
		if f.Status >= http.StatusInternalServerError {
			kind = "server_error"
		}
		return object{"error": object{"message": f.Message, "type": kind, "param": nil, "code": f.Code}}
	},
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
func (c completion) chunk(choices []any, usage json.RawMessage) Event {
	part := object{"id": c.ID, "object": "chat.completion.chunk", "created": c.Created, "model": c.Model, "choices": choices}
	for name, value := range map[string]json.RawMessage{"service_tier": c.ServiceTier, "system_fingerprint": c.SystemFingerprint, "usage": usage} {
		if value != nil {
			part[name] = value
		}
	}
	return Event{Data: part}
}

// completionStream is the whole completion as a stream of two chunks for each choice: its message,
// and its end.
func completionStream(result []byte, withUsage bool) (events []Event, err error) {
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
		events = append(events, c.chunk([]any{object{"index": choice.Index, "delta": choice.Message, "logprobs": choice.Logprobs, "finish_reason": nil}}, nil))
		events = append(events, c.chunk([]any{object{"index": choice.Index, "delta": object{}, "finish_reason": choice.FinishReason}}, nil))
	}
	if withUsage {
		events = append(events, c.chunk([]any{}, c.Usage))
	}
	return append(events, Event{Data: "[DONE]"}), nil
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
