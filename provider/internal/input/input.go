// Package input makes the body of a vendor's request from a job's input. The input is
// the vendor's own request body; what the configuration decides is put in where the
// input leaves it out, and refused where the input says otherwise. All other bytes stay
// as they are.
//
// It imports nothing of this module.
package input

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Rules are what the configuration decides.
type Rules struct {
	Model  string // the input's model, where it has one
	Flags  []Flag
	Absent []Member // put in where the input leaves them out
}

// Flag is a member that is true or false.
type Flag struct {
	Name string
	On   bool // put in where the input leaves it out; else the input may not say true
}

// Member is a member of a body.
type Member struct {
	Name  string
	Value string // JSON
	With  string // put in only where this flag is true; empty: always
}

// Body returns the body for an input. Its errors say what to change in the input.
func (r Rules) Body(text []byte) ([]byte, error) {
	trimmed := bytes.TrimSpace(text)
	said, err := members(trimmed)
	if err != nil {
		return nil, err
	}
	put, err := r.missing(said)
	if err != nil || len(put) == 0 {
		return trimmed, err
	}
	var body bytes.Buffer
	body.WriteByte('{')
	body.Write(bytes.Join(put, []byte(",")))
	if len(said) > 0 {
		body.WriteByte(',')
	}
	body.Write(trimmed[1:])
	return body.Bytes(), nil
}

// missing returns what to put in, and checks what is there.
func (r Rules) missing(said map[string]jsontext.Value) (put [][]byte, err error) {
	add := func(name, value string) { put = append(put, fmt.Appendf(nil, "%q:%s", name, value)) }
	switch model, ok := said["model"]; {
	case !ok:
		quoted, _ := json.Marshal(r.Model) // a string always can be
		add("model", string(quoted))
	case !isText(model, r.Model):
		return nil, fmt.Errorf("the input's model is %.200s and the provider's is %q: leave it out, or name the provider of that model", model, r.Model)
	}
	on := map[string]bool{"": true}
	for _, f := range r.Flags {
		value, ok := said[f.Name]
		switch {
		case !ok && f.On:
			add(f.Name, "true")
		case ok && value.Kind() == 't' && !f.On:
			return nil, fmt.Errorf("the input says %s: true, and the provider's configuration does not: leave it out, or configure %s: true", f.Name, f.Name)
		case ok && value.Kind() != 't' && value.Kind() != 'f':
			return nil, fmt.Errorf("the input's %s is %.200s: use true or false", f.Name, value)
		}
		on[f.Name] = !ok && f.On || ok && value.Kind() == 't'
	}
	for _, m := range r.Absent {
		if _, ok := said[m.Name]; !ok && on[m.With] {
			add(m.Name, m.Value)
		}
	}
	return put, nil
}

func isText(value jsontext.Value, want string) bool {
	text, err := jsontext.AppendUnquote(nil, value)
	return value.Kind() == '"' && err == nil && string(text) == want
}

// members returns the members of an object.
func members(text []byte) (map[string]jsontext.Value, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		return nil, fmt.Errorf("the input is no JSON object: give the body of the vendor's request")
	}
	said := map[string]jsontext.Value{}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() == '"' {
		var name jsontext.Token
		if name, err = d.ReadToken(); err != nil {
			break
		}
		key := name.String()
		var value jsontext.Value
		if value, err = d.ReadValue(); err == nil {
			said[key] = value.Clone()
		}
	}
	if err == nil {
		_, err = d.ReadToken() // the closing brace
	}
	if err != nil {
		return nil, fmt.Errorf("the input cannot be read: %.200s", err.Error())
	}
	return said, nil
}
