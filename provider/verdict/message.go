package verdict

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/onejob/onejob"
)

// Message is a body that was checked to be one JSON value, and what every API's bodies
// have in common. The zero Message is that of a body that could not be read.
type Message struct {
	Body   []byte
	Failed bool     // a member error is there and not null
	Codes  []string // of the error, the most specific first
	ID     string   // the member id

	prose  string // of the error, for people
	billed bool   // something counts usage above zero
	number bool   // the body is a number
}

// Read returns the message in a body. It returns an empty one with the error. A member
// may be there twice: the answer was paid for and is kept as it is, and every error and
// every count in it is heard.
func Read(body []byte, maxDepth int) (Message, error) {
	if err := onejob.CheckJSON("the body", body, maxDepth); err != nil {
		return Message{}, err
	}
	return read(body), nil
}

func read(body []byte) Message {
	value := jsontext.Value(bytes.TrimSpace(body))
	m := Message{Body: body, number: value.Kind() == '0'}
	var topCodes []string
	eachMember(value, func(name string, value jsontext.Value) {
		switch name {
		case "error":
			m.readError(value)
		case "usage", "billing":
			m.billed = m.billed || counts(value)
		case "id":
			m.ID = scalar(value)
		case "code", "type":
			topCodes = appendText(topCodes, scalar(value))
		case "message", "detail":
			m.prose = scalar(value)
		}
	})
	if !m.Failed {
		m.Codes = topCodes
	}
	return m
}

// At returns the message at a path of names within this one, an empty one if there is
// none.
func (m Message) At(path ...string) Message {
	inner := m.Member(path...)
	if inner == nil {
		return Message{}
	}
	return read(inner)
}

// Member returns the value at a path of names, nil if there is none.
func (m Message) Member(path ...string) []byte {
	value := jsontext.Value(bytes.TrimSpace(m.Body))
	for _, step := range path {
		var found jsontext.Value
		eachMember(value, func(name string, value jsontext.Value) {
			if name == step {
				found = value.Clone()
			}
		})
		value = found
	}
	return value
}

// Text returns the text or the digits at a path of names, "" if there are none.
func (m Message) Text(path ...string) string { return scalar(m.Member(path...)) }

// eachMember calls read for the members of an object, in order; of anything else for
// none. The object was checked; a value is valid until read returns.
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
func (m *Message) readError(value jsontext.Value) {
	if value.Kind() == 'n' {
		return
	}
	m.Failed = true
	m.Codes = appendText(m.Codes, scalar(value))
	members := map[string]string{}
	eachMember(value, func(name string, value jsontext.Value) {
		members[name] = scalar(value)
		if name == "details" {
			m.Codes = appendText(m.Codes, Message{Body: value}.Text("error_code")) // Anthropic
		}
	})
	for _, name := range []string{"code", "type", "status"} {
		m.Codes = appendText(m.Codes, members[name])
	}
	if members["message"] != "" {
		m.prose = members["message"]
	}
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
