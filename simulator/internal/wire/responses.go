package wire

// Words of OpenAI for the state of a response.
const (
	ResponseQueued     = "queued"
	ResponseInProgress = "in_progress"
	ResponseCompleted  = "completed"
	ResponseFailed     = "failed"
	ResponseCancelled  = "cancelled"
	ResponseIncomplete = "incomplete"
)

// Response words the answer as a response, in the state that it has.
func (a Answer) Response() []byte { return marshal(a.response()) }

func (a Answer) response() object {
	body := object{
		"id": a.ID, "object": "response", "created_at": a.Asked.Unix(), "status": a.responseStatus(), "background": a.Background,
		"completed_at": nil, "error": nil, "incomplete_details": nil, "instructions": nil, "max_output_tokens": nil,
		"metadata": object{}, "model": a.Model, "output": []any{}, "parallel_tool_calls": true, "previous_response_id": nil,
		"reasoning": object{"effort": nil, "summary": nil}, "service_tier": "default", "store": true, "temperature": 1.0,
		"text": object{"format": object{"type": "text"}}, "tool_choice": "auto", "tools": []any{}, "top_p": 1.0,
		"truncation": "disabled", "usage": nil,
	}
	switch body["status"] {
	case ResponseCompleted:
		body["completed_at"] = seconds(a.Ended)
		body["output"], body["usage"] = a.output(), a.responseUsage()
	case ResponseIncomplete:
		body["incomplete_details"] = object{"reason": a.incompleteReason()}
		body["output"], body["usage"] = a.output(), a.responseUsage()
	case ResponseFailed:
		body["error"], body["usage"] = a.responseError(), a.responseUsage()
	}
	return body
}

func (a Answer) responseStatus() string {
	switch {
	case a.Status != "" && a.Status != ResponseCompleted:
		return a.Status
	case a.End == Length, a.End == ContentFilter:
		return ResponseIncomplete
	}
	return ResponseCompleted
}

func (a Answer) incompleteReason() string {
	if a.End == Length {
		return "max_output_tokens"
	}
	return string(a.End)
}

func (a Answer) responseError() object {
	e := Error{}
	if a.Error != nil {
		e = *a.Error
	}
	if e.Code == "" {
		e.Code = "server_error"
	}
	return object{"code": e.Code, "message": e.Message}
}

// output is a reasoning item, if there was reasoning, and what the answer says.
func (a Answer) output() []object {
	items := []object{}
	if a.Usage != nil && a.Usage.Reasoning > 0 {
		items = append(items, object{"id": "rs_" + a.ID, "type": "reasoning", "summary": []any{}})
	}
	if a.End == Empty || a.End == ContentFilter {
		return items
	}
	return append(items, a.outputItem())
}

func (a Answer) outputItem() object {
	if a.End == ToolCalls {
		return object{
			"id": "fc_" + a.ID, "type": "function_call", "status": ResponseCompleted,
			"call_id": "call_" + a.ID, "name": toolName, "arguments": toolArguments,
		}
	}
	return a.messageItem(a.responseStatus(), []object{a.messagePart(a.said())})
}

func (a Answer) messageItem(status string, parts []object) object {
	return object{"id": "msg_" + a.ID, "type": "message", "status": status, "role": "assistant", "content": parts}
}

func (a Answer) messagePart(text string) object {
	if a.End == Refusal {
		return object{"type": "refusal", "refusal": text}
	}
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": text}
}

func (a Answer) responseUsage() any {
	switch {
	case a.Raw != nil:
		return a.Raw
	case a.Usage == nil:
		return nil
	}
	u := a.Usage
	return object{
		"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"input_tokens_details":  object{"cached_tokens": u.Cached, "cache_write_tokens": 0},
		"output_tokens_details": object{"reasoning_tokens": u.Reasoning},
	}
}
