package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onejob/onejob"
)

// The bounds of replies and inputs, those of what is stored; see [onejob.Limits].
var (
	mostReplyBytes = onejob.Limits{}.OrDefault().ResultBytes
	mostInputBytes = onejob.Limits{}.OrDefault().InputBytes
)

// longestNumber bounds a number, so that nobody makes us compute with a million digits.
const longestNumber = 100

// parseValue returns the one JSON value that text is, with numbers as they are spelled.
func parseValue(text []byte, mostBytes int) (any, *Finding) {
	if len(text) > mostBytes {
		return nil, &Finding{Code: CodeTooLarge, Detail: fmt.Sprintf("it has %d bytes: the limit is %d", len(text), mostBytes)}
	}
	if f := checkTokens(text); f != nil {
		return nil, f
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, &Finding{Code: CodeNotJSON, Detail: err.Error()}
	}
	return value, nil
}

// checkTokens reads text to its end, so that decoding it may recurse.
func checkTokens(text []byte) *Finding {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for first := true; first || d.StackDepth() > 0; first = false {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return duplicate(err)
		case err != nil:
			return notJSON(text, err)
		case d.StackDepth() > mostDepth:
			return &Finding{Code: CodeTooLarge, Detail: fmt.Sprintf("it is nested deeper than %d levels", mostDepth)}
		case token.Kind() == '0' && !countable(token.String()):
			return &Finding{Code: CodeNumber, Path: string(d.StackPointer()), Detail: "a number of more than 100 characters or an exponent of more than 3 digits"}
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &Finding{Code: CodeSurrounded, Detail: fmt.Sprintf("something stands behind the JSON, from byte %d on", d.InputOffset())}
	}
	return nil
}

func duplicate(err error) *Finding {
	f := Finding{Code: CodeDuplicateMember, Detail: "a member stands twice in an object"}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		f.Path = string(syntax.JSONPointer)
	}
	return &f
}

// notJSON says what stands there instead, as far as its beginning tells.
func notJSON(text []byte, err error) *Finding {
	trimmed := bytes.TrimSpace(text)
	switch start := bytes.IndexAny(trimmed, "{["); {
	case len(trimmed) == 0:
		return &Finding{Code: CodeNotJSON, Detail: "it is empty"}
	case bytes.HasPrefix(trimmed, []byte("```")):
		return &Finding{Code: CodeFenced, Detail: "the JSON stands in a Markdown fence: the whole reply must be the JSON"}
	case start > 0 && jsontext.Value(firstValue(trimmed[start:])).IsValid():
		return &Finding{Code: CodeSurrounded, Detail: fmt.Sprintf("the JSON begins behind %q: the whole reply must be the JSON", onejob.Shorten(string(trimmed[:start]), 60))}
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return &Finding{Code: CodeNotJSON, Detail: "it ends in the middle"}
	}
	return &Finding{Code: CodeNotJSON, Detail: strings.TrimPrefix(err.Error(), "jsontext: ")}
}

// firstValue is the JSON value that text begins with, nil if it begins with none.
func firstValue(text []byte) []byte {
	value, err := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true)).ReadValue()
	if err != nil {
		return nil
	}
	return value
}

var longExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}$`)

// countable says that a number can be computed with at all.
func countable(number string) bool {
	return len(number) <= longestNumber && !longExponent.MatchString(number)
}

var badEscape = regexp.MustCompile(`~([^01]|$)`)

// pointed returns what a JSON Pointer names in the value.
func pointed(value any, pointer string) (any, bool) {
	for _, part := range pointerParts(pointer) {
		switch v := value.(type) {
		case map[string]any:
			member, ok := v[part]
			if !ok {
				return nil, false
			}
			value = member
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != part {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

func pointerParts(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

func pointerOf(parts []string) string {
	escapedParts := slices.Clone(parts)
	for i, part := range escapedParts {
		escapedParts[i] = "/" + escaped(part)
	}
	return strings.Join(escapedParts, "")
}

// same says that two JSON values are equal, numbers by their value.
func same(a, b []byte) bool {
	first, errA := onejob.CanonicalJSON("the first", a, mostDepth+1)
	second, errB := onejob.CanonicalJSON("the second", b, mostDepth+1)
	return errA == nil && errB == nil && bytes.Equal(first, second)
}

// spelled is the JSON text of a decoded value.
func spelled(value any) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil { // of a value that was decoded: it cannot fail
		return []byte(strconv.Quote(err.Error()))
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}
