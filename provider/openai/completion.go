package openai

import (
	"encoding/json"
	"maps"
	"slices"
)

// completion is the sum of a stream's chunks. It keeps what it does not know: servers
// add members of their own, such as a text of their reasoning.
type completion struct {
	members map[string]any
	choices indexed
}

// indexed are objects by the index that a stream gives them.
type indexed map[int]map[string]any

// MarshalJSON writes the objects in order.
func (x indexed) MarshalJSON() ([]byte, error) {
	objects := []map[string]any{}
	for _, i := range slices.Sorted(maps.Keys(x)) {
		objects = append(objects, x[i])
	}
	return plainJSON(objects)
}

// at returns the object of an index, a new one if there is none.
func (x indexed) at(i int) map[string]any {
	if x[i] == nil {
		x[i] = map[string]any{}
	}
	return x[i]
}

func (c *completion) add(chunk map[string]any) {
	if c.members == nil {
		c.members, c.choices = map[string]any{}, indexed{}
	}
	for name, value := range chunk {
		switch {
		case name == "choices":
			c.addChoices(value)
		case name != "object" && value != nil:
			c.members[name] = value
		}
	}
}

func (c *completion) addChoices(value any) {
	for _, item := range list(value) {
		choice := c.choices.at(index(item))
		choice["index"] = index(item)
		for name, value := range item {
			switch {
			case name == "delta":
				message, _ := choice["message"].(map[string]any)
				choice["message"] = merged(message, object(value))
			case name == "logprobs" && value != nil:
				logprobs, _ := choice[name].(map[string]any)
				choice[name] = merged(logprobs, object(value))
			case name != "index" && value != nil:
				choice[name] = value
			}
		}
	}
}

// body returns the completion as it would have come without the stream.
func (c *completion) body() []byte {
	whole := map[string]any{"object": "chat.completion", "choices": indexed{}}
	maps.Copy(whole, c.members)
	if c.choices != nil {
		whole["choices"] = c.choices
	}
	body, _ := plainJSON(whole) // it was read from JSON
	return body
}

// inOnePiece are members of a delta that come once and whole; other texts come in pieces.
var inOnePiece = map[string]bool{"role": true, "id": true, "type": true}

// merged adds a delta to what came before.
func merged(sum, delta map[string]any) map[string]any {
	if sum == nil {
		sum = map[string]any{}
	}
	for name, value := range delta {
		switch v := value.(type) {
		case string:
			addText(sum, name, v)
		case map[string]any:
			before, _ := sum[name].(map[string]any)
			sum[name] = merged(before, v)
		case []any:
			addList(sum, name, v)
		case nil:
			if _, ok := sum[name]; !ok {
				sum[name] = nil
			}
		default:
			sum[name] = value
		}
	}
	return sum
}

func addText(sum map[string]any, name, piece string) {
	if inOnePiece[name] {
		sum[name] = piece
		return
	}
	before, ok := sum[name].(*text)
	if !ok {
		before = &text{}
		sum[name] = before
	}
	before.WriteString(piece)
}

// addList adds the items that have an index to those of their index, the others at the
// end.
func addList(sum map[string]any, name string, items []any) {
	for _, item := range items {
		o, isObject := item.(map[string]any)
		if _, has := o["index"]; !isObject || !has {
			before, _ := sum[name].([]any)
			sum[name] = append(before, item)
			continue
		}
		byIndex, ok := sum[name].(indexed)
		if !ok {
			byIndex = indexed{}
			sum[name] = byIndex
		}
		i := index(o)
		delete(o, "index")
		byIndex[i] = merged(byIndex[i], o)
	}
}

func list(value any) (objects []map[string]any) {
	items, _ := value.([]any)
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

func object(value any) map[string]any {
	o, _ := value.(map[string]any)
	return o
}

func index(item map[string]any) int {
	number, _ := item["index"].(json.Number)
	i, _ := number.Int64()
	return int(i)
}
