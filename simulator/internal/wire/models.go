package wire

import "time"

// modelsMade is when every model was made.
var modelsMade = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// OpenAIModel words a model as OpenAI does.
func OpenAIModel(id string) []byte { return marshal(openAIModel(id)) }

func openAIModel(id string) object {
	return object{"id": id, "object": "model", "created": modelsMade.Unix(), "owned_by": "simulator"}
}

// OpenAIModels words a list of models as OpenAI does.
func OpenAIModels(ids []string) []byte {
	list := []object{}
	for _, id := range ids {
		list = append(list, openAIModel(id))
	}
	return marshal(object{"object": "list", "data": list})
}

// AnthropicModel words a model as Anthropic does.
func AnthropicModel(id string) []byte { return marshal(anthropicModel(id)) }

func anthropicModel(id string) object {
	return object{
		"id": id, "type": "model", "display_name": id, "created_at": stamp(modelsMade),
		"max_input_tokens": 200_000, "max_tokens": 64_000, "capabilities": nil,
	}
}

// AnthropicModels words a list of models as Anthropic does.
func AnthropicModels(ids []string) []byte {
	list := []object{}
	for _, id := range ids {
		list = append(list, anthropicModel(id))
	}
	page := object{"data": list, "has_more": false, "first_id": nil, "last_id": nil}
	if len(ids) > 0 {
		page["first_id"], page["last_id"] = ids[0], ids[len(ids)-1]
	}
	return marshal(page)
}

// TokenCount words a count of input tokens as Anthropic does.
func TokenCount(input int64) []byte { return marshal(object{"input_tokens": input}) }
