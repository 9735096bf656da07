package httpjson

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// message is what the adapter reads in a body.
type message struct {
	failed bool     // a member error is there and not null
	codes  []string // of the error, the most specific first
	prose  string   // of the error, for people
	id     string
	usage  *provider.Usage
	billed bool // something counts usage above zero
	number bool // the body is a number
}

// readMessage checks that body is one JSON value and reads its members. It returns
// an empty message with the error. A member may be there twice: the answer was paid
// for and is kept as it is, and every error and every count in it is heard.
func readMessage(body []byte, maxDepth int) (message, error) {
	if err := onejob.CheckJSON("the body", body, maxDepth); err != nil {
		return message{}, err
	}
	var m message
	value := jsontext.Value(bytes.TrimSpace(body))
	m.number = value.Kind() == '0'
	var topCodes []string
	eachMember(value, func(name string, value jsontext.Value) {
		switch name {
		case "error":
			m.readError(value)
		case "usage", "billing":
			m.billed = m.billed || counts(value)
			if name == "usage" {
				m.usage = readUsage(value)
			}
		case "id":
			m.id = scalar(value)
		case "code", "type":
			topCodes = appendCode(topCodes, value)
		case "message", "detail":
			m.prose = scalar(value)
		}
	})
	if !m.failed {
		m.codes = topCodes
	}
	return m, nil
}

// eachMember calls read for the members of an object, in order; of anything else for
// none. The value was checked.
func eachMember(object jsontext.Value, read func(name string, value jsontext.Value)) {
	if object.Kind() != '{' {
		return
	}
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true))
	_, _ = d.ReadToken() // the brace
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		read(key, value)
	}
}

// readError reads a member error: an object with codes and prose, or a bare code.
func (m *message) readError(value jsontext.Value) {
	if value.Kind() == 'n' {
		return
	}
	m.failed = true
	m.codes = appendCode(m.codes, value)
	members := map[string]string{}
	eachMember(value, func(name string, value jsontext.Value) { members[name] = scalar(value) })
	for _, name := range []string{"code", "type", "status"} {
		m.codes = appendText(m.codes, members[name])
	}
	if members["message"] != "" {
		m.prose = members["message"]
	}
}

func appendCode(codes []string, value jsontext.Value) []string {
	return appendText(codes, scalar(value))
}

func appendText(codes []string, code string) []string {
	if code == "" {
		return codes
	}
	return append(codes, code)
}

// scalar returns a string's text or a number's digits, and "" for anything else.
func scalar(value jsontext.Value) string {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return ""
		}
		return string(text)
	case '0':
		return value.String()
	}
	return ""
}

// readUsage returns the counts in a member usage, or nil if none of them is there as
// a number of tokens.
func readUsage(value jsontext.Value) *provider.Usage {
	var usage provider.Usage
	fields := map[string]*int64{
		"input_tokens":        &usage.InputTokens,
		"output_tokens":       &usage.OutputTokens,
		"cached_input_tokens": &usage.CachedInputTokens,
	}
	read, wrong := 0, 0
	eachMember(value, func(name string, value jsontext.Value) {
		field := fields[name]
		if field == nil || value.Kind() == 'n' {
			return
		}
		if tokens, ok := tokenCount(value); ok {
			*field = tokens
			read++
		} else {
			wrong++
		}
	})
	if read == 0 || wrong > 0 {
		return nil
	}
	return &usage
}

// tokenCount reads a whole number from 0 to 2^53, up to which every language counts
// exactly.
func tokenCount(value jsontext.Value) (int64, bool) {
	if value.Kind() != '0' {
		return 0, false
	}
	number, err := strconv.ParseFloat(value.String(), 64)
	if err != nil || number < 0 || number > 1<<53 || number != math.Trunc(number) {
		return 0, false
	}
	return int64(number), true
}

// counts says that a value may tell of usage above zero: anything that is not empty,
// false, or zero all the way down.
func counts(value jsontext.Value) bool {
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowDuplicateNames(true))
	for {
		inName := false
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 0 {
			inName = true
		}
		token, err := d.ReadToken()
		if err != nil {
			return false
		}
		switch token.Kind() {
		case 't':
			return true
		case '"':
			if !inName && token.String() != "" {
				return true
			}
		case '0':
			if strings.Trim(strings.ToLower(token.String()), "-0.e+") != "" {
				return true
			}
		}
	}
}

// longestReference bounds, in bytes, what a provider may call our request.
const longestReference = 2 << 10

// referenceOf returns the provider's name for the call: the body's id, else the
// header Location.
func referenceOf(r received, m message) string {
	for _, reference := range []string{m.id, r.header.Get("Location")} {
		if reference != "" && len(reference) <= longestReference && utf8.ValidString(reference) && oneWord(reference) {
			return reference
		}
	}
	return ""
}

func oneWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
