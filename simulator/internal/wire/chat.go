package wire

// Chat words the answer as a chat completion.
func (a Answer) Chat() []byte {
	body := a.chatHead("chat.completion")
	body["choices"] = a.chatChoices()
	body["service_tier"] = "default"
	if usage := a.chatUsage(); usage != nil {
		body["usage"] = usage
	}
	return marshal(body)
}

func (a Answer) chatHead(kind string) object {
	return object{"id": a.ID, "object": kind, "created": a.Asked.Unix(), "model": a.Model, "system_fingerprint": nil}
}

func (a Answer) chatChoices() []object {
	if a.End == Empty {
		return []object{}
	}
	message := object{"role": "assistant", "content": a.said(), "refusal": nil, "annotations": []any{}}
	switch a.End {
	case Refusal:
		message["content"], message["refusal"] = nil, a.said()
	case ToolCalls:
		message["content"], message["tool_calls"] = nil, []object{chatToolCall(a.ID)}
	}
	return []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": a.chatReason()}}
}

func chatToolCall(id string) object {
	return object{"id": "call_" + id, "type": "function", "function": object{"name": toolName, "arguments": toolArguments}}
}

func (a Answer) chatReason() string {
	switch a.End {
	case Complete, Refusal:
		return "stop"
	}
	return string(a.End)
}

func (a Answer) chatUsage() any {
	switch {
	case a.Raw != nil:
		return a.Raw
	case a.Usage == nil:
		return nil
	}
	u := a.Usage
	return object{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details": object{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": object{
			"reasoning_tokens": u.Reasoning, "audio_tokens": 0,
			"accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
		},
	}
}

// ChatEvents words the answer as the stream of a chat completion. Its usage comes only
// if it was asked for.
func (a Answer) ChatEvents(withUsage bool) []Event {
	var events []Event
	if a.End != Empty {
		events = append(events, a.chatChunk(object{"role": "assistant", "content": "", "refusal": nil}, nil))
		for _, delta := range a.chatDeltas() {
			events = append(events, a.chatChunk(delta, nil))
		}
		events = append(events, a.chatChunk(object{}, a.chatReason()))
	}
	if withUsage {
		last := a.chatHead("chat.completion.chunk")
		last["choices"], last["usage"] = []any{}, a.chatUsage()
		events = append(events, Event{Data: marshal(last)})
	}
	return append(events, Event{Data: []byte("[DONE]")})
}

func (a Answer) chatDeltas() (deltas []object) {
	member := "content"
	switch a.End {
	case Refusal:
		member = "refusal"
	case ToolCalls:
		call := chatToolCall(a.ID)
		call["index"] = 0
		return []object{{"tool_calls": []object{call}}}
	case ContentFilter:
		return nil
	}
	for _, part := range halves(a.said()) {
		deltas = append(deltas, object{member: part})
	}
	return deltas
}

func (a Answer) chatChunk(delta object, reason any) Event {
	chunk := a.chatHead("chat.completion.chunk")
	chunk["choices"] = []object{{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}}
	return Event{Data: marshal(chunk)}
}

// ChatError is the event by which a stream of a chat completion fails.
func (e Error) ChatError() Event { return Event{Data: e.OpenAI()} }
