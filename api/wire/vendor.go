package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onejob/onejob"
)

// Format is a vendor's format as its clients read it.
type Format struct {
	// Stream returns the whole result as the events of a stream.
	Stream      func(result []byte, withUsage bool) ([]Event, error)
	Failure     func(Failure) any // the body of an error
	FailedEvent string            // the name of an error's event; empty: it has none
}

// Failure is an error in no vendor's words.
type Failure struct {
	Status        int
	Code, Message string
}

// Event is an event of a stream.
type Event struct {
	Name string // empty: none is written
	Data any    // a string: as it stands; else as JSON
}

// VendorRequest is a request in a vendor's format, as far as a door reads it.
type VendorRequest struct {
	Input             []byte // the body without stream and stream_options: how its answer travels is no part of the intent
	Model             string // empty: it names none
	Stream, WithUsage bool
}

// ReadVendor reads a request of either vendor. It fails with [onejob.ErrInvalidRequest].
func ReadVendor(body []byte) (VendorRequest, error) {
	input, taken, err := without(body, "stream", "stream_options")
	if err != nil {
		return VendorRequest{}, err
	}
	var said struct {
		Model         string `json:"model"`
		Stream        bool   `json:"stream"`
		StreamOptions struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(taken, &said); err != nil {
		return VendorRequest{}, onejob.Errorf(onejob.CodeInvalidRequest, "model is no text, or stream is not true or false")
	}
	return VendorRequest{Input: input, Model: said.Model, Stream: said.Stream, WithUsage: said.StreamOptions.IncludeUsage}, nil
}

// without returns the object without the members of these names, and an object of these and of
// its model. All other bytes stay as they are.
func without(body []byte, names ...string) (rest, taken []byte, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	notAnObject := onejob.Errorf(onejob.CodeInvalidRequest, "the body is no JSON object: send one request in the vendor's format")
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, nil, notAnObject
	}
	put := func(to []byte, name, value jsontext.Value) []byte {
		if len(to) > 0 {
			to = append(to, ',')
		}
		return append(append(append(to, name...), ':'), value...)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return nil, nil, notAnObject
		}
		name = slices.Clone(name)
		value, err := d.ReadValue()
		if err != nil {
			return nil, nil, notAnObject
		}
		plain, _ := jsontext.AppendUnquote(nil, name) // it was read
		if string(plain) == "model" || slices.Contains(names, string(plain)) {
			taken = put(taken, name, value)
		}
		if !slices.Contains(names, string(plain)) {
			rest = put(rest, name, value)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, notAnObject
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, nil, notAnObject
	}
	return slices.Concat([]byte("{"), rest, []byte("}")), slices.Concat([]byte("{"), taken, []byte("}")), nil
}
