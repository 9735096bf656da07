package wire

// Message words the answer as a message.
func (a Answer) Message() []byte { return marshal(a.message()) }

func (a Answer) message() object {
	return object{
		"id": a.ID, "type": "message", "role": "assistant", "model": a.Model, "container": nil,
		"content": a.blocks(), "stop_reason": a.stopReason(), "stop_sequence": nil,
		"stop_details": a.stopDetails(), "usage": a.messageUsage(),
	}
}

func (a Answer) blocks() []object {
	switch a.End {
	case Empty, ContentFilter:
		return []object{}
	case ToolCalls:
		return []object{a.toolUse(object{"simulated": true})}
	}
	return []object{{"type": "text", "text": a.said(), "citations": nil}}
}

func (a Answer) toolUse(input object) object {
	return object{"type": "tool_use", "id": "toolu_" + a.ID, "name": toolName, "input": input}
}

func (a Answer) stopReason() string {
	switch a.End {
	case Complete, Empty:
		return "end_turn"
	case Length:
		return "max_tokens"
	case ContentFilter, Refusal:
		return "refusal"
	case ToolCalls:
		return "tool_use"
	}
	return string(a.End)
}

func (a Answer) stopDetails() any {
	if a.stopReason() != "refusal" {
		return nil
	}
	return object{"type": "refusal", "category": nil, "explanation": nil}
}

// messageUsage counts as Anthropic does: the input without what came from the cache.
func (a Answer) messageUsage() any {
	switch {
	case a.Raw != nil:
		return a.Raw
	case a.Usage == nil:
		return nil
	}
	u := a.Usage
	return object{
		"input_tokens": u.Input - u.Cached, "output_tokens": u.Output,
		"cache_creation_input_tokens": 0, "cache_read_input_tokens": u.Cached,
		"cache_creation":        object{"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
		"output_tokens_details": object{"thinking_tokens": u.Reasoning},
		"server_tool_use":       nil, "service_tier": "standard", "inference_geo": "not_available",
	}
}

// MessageEvents words the answer as the stream of a message.
func (a Answer) MessageEvents() []Event {
	var events []Event
	add := func(kind string, members object) {
		members["type"] = kind
		events = append(events, Event{Name: kind, Data: marshal(members)})
	}
	start := a.message()
	start["content"], start["stop_reason"], start["stop_details"] = []any{}, nil, nil
	add("message_start", object{"message": start})
	add("ping", object{})
	for index, block := range a.blocks() {
		add("content_block_start", object{"index": index, "content_block": a.startOf(block)})
		for _, delta := range a.blockDeltas(block) {
			add("content_block_delta", object{"index": index, "delta": delta})
		}
		add("content_block_stop", object{"index": index})
	}
	add("message_delta", object{
		"delta": object{"stop_reason": a.stopReason(), "stop_sequence": nil, "stop_details": a.stopDetails()},
		"usage": a.messageUsage(),
	})
	add("message_stop", object{})
	return events
}

func (a Answer) startOf(block object) object {
	if block["type"] == "tool_use" {
		return a.toolUse(object{})
	}
	return object{"type": "text", "text": "", "citations": nil}
}

func (a Answer) blockDeltas(block object) (deltas []object) {
	if block["type"] == "tool_use" {
		return []object{{"type": "input_json_delta", "partial_json": toolArguments}}
	}
	for _, part := range halves(a.said()) {
		deltas = append(deltas, object{"type": "text_delta", "text": part})
	}
	return deltas
}

// MessageError is the event by which the stream of a message fails.
func (e Error) MessageError(requestID string) Event {
	return Event{Name: "error", Data: e.Anthropic(requestID)}
}
