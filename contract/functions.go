package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	texttemplate "text/template"
)

// number is a number of an input, as it is spelled there.
type number string

// shown is a decoded JSON value as templates see it. Whole numbers can be compared.
func shown(value any, text func(string) string) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			object[text(name)] = shown(member, text)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = shown(item, text)
		}
		return list
	case json.Number:
		if n, err := strconv.Atoi(string(v)); err == nil && strconv.Itoa(n) == string(v) {
			return n
		}
		return number(v)
	case string:
		return text(v)
	}
	return value
}

// functions are those that the templates use. Steps counts what they go through.
func functions(steps *int) texttemplate.FuncMap {
	return texttemplate.FuncMap{
		showFunction:    show,
		throughFunction: func(value any) (any, error) { return through(value, steps) },
		"index":         index,
		"has":           has,
		"json":          asJSON,
		"join":          join,
		"lower":         strings.ToLower,
		"upper":         strings.ToUpper,
		"trim":          strings.TrimSpace,
	}
}

// show is a value as text.
func show(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case number:
		return string(v), nil
	case int:
		return strconv.Itoa(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", fmt.Errorf("the value is null or missing: show it only if it is there, {{if .name}}")
	}
	return "", fmt.Errorf("the value is %s: show it by json, or go through it by range", typeOf(value))
}

func typeOf(value any) string {
	switch value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	}
	return "a number"
}

// through lets a template go through lists and objects only: a number would be a count.
func through(value any, steps *int) (any, error) {
	n := 0
	switch v := value.(type) {
	case []any:
		n = len(v)
	case map[string]any:
		n = len(v)
	default:
		return nil, fmt.Errorf("the value is %s: go through a list or an object", typeOf(value))
	}
	if *steps += n + 1; *steps > mostSteps {
		return nil, errTooManySteps
	}
	return value, nil
}

// index is a member or item that must be there.
func index(value any, keys ...any) (any, error) {
	for _, key := range keys {
		member, there := under(value, key)
		if !there {
			return nil, fmt.Errorf("the value, %s, has no %v", typeOf(value), key)
		}
		value = member
	}
	return value, nil
}

func under(value, key any) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		name, isText := key.(string)
		member, there := v[name]
		return member, isText && there
	case []any:
		i, isNumber := key.(int)
		if isNumber && 0 <= i && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// has says that the members are there, one in the other, and that the last is not null.
func has(value any, keys ...any) bool {
	for _, key := range keys {
		var there bool
		if value, there = under(value, key); !there {
			return false
		}
	}
	return value != nil
}

// asJSON is a value as JSON, with numbers as they were spelled.
func asJSON(value any) string { return string(spelled(value)) }

// MarshalJSON keeps the spelling.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// join is the items of a list as text, with a separator between them.
func join(value any, separator string) (string, error) {
	list, ok := value.([]any)
	if !ok {
		return "", fmt.Errorf("the value is %s: join a list", typeOf(value))
	}
	items := make([]string, len(list))
	for i, item := range list {
		text, err := show(item)
		if err != nil {
			return "", err
		}
		items[i] = text
	}
	return strings.Join(items, separator), nil
}
