package wire

import (
	"encoding/json"
	"maps"
	"net/http"
)

// Anthropic is the format of Anthropic's messages.
var Anthropic = Format{
	Stream: messageStream, FailedEvent: "error",
	Failure: func(f Failure) any {
		return object{"type": "error", "error": object{"type": anthropicError(f.Status), "message": f.Code + ": " + f.Message}}
	},
}

// anthropicError is the vendor's word for a status.
func anthropicError(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}

type object = map[string]any

// messageStream is the whole message as a stream of one delta for each block.
func messageStream(result []byte, _ bool) ([]Event, error) {
	var message map[string]json.RawMessage
	if err := json.Unmarshal(result, &message); err != nil {
		return nil, err
	}
	var blocks []map[string]json.RawMessage
	if err := json.Unmarshal(message["content"], &blocks); err != nil {
		return nil, err
	}
	begun := maps.Clone(message)
	begun["content"], begun["stop_reason"], begun["stop_sequence"] = json.RawMessage("[]"), json.RawMessage("null"), json.RawMessage("null")
	events := []Event{{"message_start", object{"type": "message_start", "message": begun}}}
	for i, block := range blocks {
		start, deltas, err := takenApart(block)
		if err != nil {
			return nil, err
		}
		events = append(events, Event{"content_block_start", object{"type": "content_block_start", "index": i, "content_block": start}})
		for _, delta := range deltas {
			events = append(events, Event{"content_block_delta", object{"type": "content_block_delta", "index": i, "delta": delta}})
		}
		events = append(events, Event{"content_block_stop", object{"type": "content_block_stop", "index": i}})
	}
	return append(events,
		Event{"message_delta", object{"type": "message_delta", "delta": object{"stop_reason": message["stop_reason"], "stop_sequence": orNull(message["stop_sequence"])}, "usage": message["usage"]}},
		Event{"message_stop", object{"type": "message_stop"}},
	), nil
}

func orNull(value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage("null")
	}
	return value
}

// takenApart returns a block as its stream begins it, and what is added to it. A block of a type
// that has no deltas, or that we do not know, begins whole.
func takenApart(block map[string]json.RawMessage) (start map[string]json.RawMessage, deltas []object, err error) {
	var kind string
	if err := json.Unmarshal(block["type"], &kind); err != nil {
		return nil, nil, err
	}
	start = maps.Clone(block)
	empty := json.RawMessage(`""`)
	switch kind {
	case "text":
		start["text"] = empty
		deltas = append(deltas, object{"type": "text_delta", "text": block["text"]})
		var citations []json.RawMessage
		if cited, ok := block["citations"]; ok {
			if err := json.Unmarshal(cited, &citations); err != nil {
				return nil, nil, err
			}
			start["citations"] = json.RawMessage("[]")
		}
		for _, c := range citations {
			deltas = append(deltas, object{"type": "citations_delta", "citation": c})
		}
	case "thinking":
		start["thinking"], start["signature"] = empty, empty
		deltas = append(deltas, object{"type": "thinking_delta", "thinking": block["thinking"]}, object{"type": "signature_delta", "signature": block["signature"]})
	case "tool_use", "server_tool_use":
		start["input"] = json.RawMessage("{}")
		deltas = append(deltas, object{"type": "input_json_delta", "partial_json": string(block["input"])})
	}
	return start, deltas, nil
}
