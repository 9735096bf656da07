package wire

// responseStream numbers the events of a response.
type responseStream struct{ events []Event }

func (s *responseStream) add(kind string, members object) {
	members["type"], members["sequence_number"] = kind, len(s.events)
	s.events = append(s.events, Event{Name: kind, Data: marshal(members)})
}

// ResponseEvents words the answer as the stream of a response. The last event tells its
// end.
func (a Answer) ResponseEvents() []Event {
	var s responseStream
	begun := a
	begun.Status = ResponseInProgress
	s.add("response.created", object{"response": begun.response()})
	s.add("response.in_progress", object{"response": begun.response()})
	if a.responseStatus() != ResponseFailed {
		for index, item := range a.output() {
			a.streamItem(&s, index, item)
		}
	}
	s.add("response."+a.responseStatus(), object{"response": a.response()})
	return s.events
}

func (a Answer) streamItem(s *responseStream, index int, item object) {
	begun := object{}
	for name, value := range item {
		begun[name] = value
	}
	begun["status"] = ResponseInProgress
	switch item["type"] {
	case "message":
		begun["content"] = []any{}
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
		a.streamPart(s, index, item["id"])
	case "function_call":
		begun["arguments"] = ""
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
		s.add("response.function_call_arguments.delta", object{"output_index": index, "item_id": item["id"], "delta": toolArguments})
		s.add("response.function_call_arguments.done", object{"output_index": index, "item_id": item["id"], "name": toolName, "arguments": toolArguments})
	default:
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
	}
	s.add("response.output_item.done", object{"output_index": index, "item": item})
}

func (a Answer) streamPart(s *responseStream, index int, id any) {
	at := func(members object) object {
		members["output_index"], members["item_id"], members["content_index"] = index, id, 0
		return members
	}
	kind, whole := "output_text", "text"
	if a.End == Refusal {
		kind, whole = "refusal", "refusal"
	}
	s.add("response.content_part.added", at(object{"part": a.messagePart("")}))
	for _, delta := range halves(a.said()) {
		s.add("response."+kind+".delta", at(object{"delta": delta, "logprobs": []any{}}))
	}
	s.add("response."+kind+".done", at(object{whole: a.said(), "logprobs": []any{}}))
	s.add("response.content_part.done", at(object{"part": a.messagePart(a.said())}))
}

// ResponseError is the event by which the stream of a response fails, after so many
// others.
func (e Error) ResponseError(number int) Event {
	told := e.openAI()
	members := object{"type": "error", "sequence_number": number, "code": told["code"], "message": e.Message, "param": nil}
	return Event{Name: "error", Data: marshal(members)}
}
