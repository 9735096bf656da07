package contract

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/internal/yamlfile"
)

// mostDepth bounds the nesting of every JSON value.
const mostDepth = 200

// document is a JSON value of a contract, and where its parts stand.
type document struct {
	file  string
	text  []byte
	lines map[string]int // of values, by JSON Pointer
}

// errorf returns an error at the line of what the pointer names, or of what holds it.
func (d *document) errorf(pointer, format string, args ...any) error {
	line, ok := d.lines[pointer]
	for !ok && pointer != "" {
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
		line, ok = d.lines[pointer]
	}
	return yamlfile.Errorf(d.file, line, format, args...)
}

// documentOf is the JSON value that stands in the contract itself.
func documentOf(e yamlfile.Element) (*document, error) {
	d := &document{file: e.File, lines: map[string]int{}}
	if err := d.append(e, "", 0); err != nil {
		return nil, err
	}
	return d, nil
}

// append adds the value to the text. Aliases are written out, so the size is bounded here.
func (d *document) append(e yamlfile.Element, pointer string, depth int) (err error) {
	node := e.Resolved()
	d.lines[pointer] = e.Node.Line
	switch {
	case depth > mostDepth:
		return e.Errorf("is nested deeper than %d levels: flatten it", mostDepth)
	case len(d.text) > mostFileBytes:
		return e.Errorf("has more than 4 MiB, aliases written out: make it smaller")
	case node.Kind == yaml.MappingNode:
		return d.appendObject(e, pointer, depth)
	case node.Kind == yaml.SequenceNode:
		return d.appendArray(e, pointer, depth)
	}
	scalar, err := scalarOf(e)
	d.text = append(d.text, scalar...)
	return err
}

func (d *document) appendObject(e yamlfile.Element, pointer string, depth int) error {
	d.text = append(d.text, '{')
	err := e.Entries(func(name string, value yamlfile.Element) (err error) {
		if name == "<<" {
			return value.Errorf("is merged: write its members out")
		}
		if d.text, err = jsontext.AppendQuote(d.text, name); err != nil {
			return value.Errorf("is no name for a member: %s", oneLine(err.Error()))
		}
		d.text = append(d.text, ':')
		err = d.append(value, pointer+"/"+escaped(name), depth+1)
		d.text = append(d.text, ',')
		return err
	})
	d.text = append(bytes.TrimSuffix(d.text, []byte(",")), '}')
	return err
}

func (d *document) appendArray(e yamlfile.Element, pointer string, depth int) error {
	d.text = append(d.text, '[')
	i := 0
	err := e.List(func(item yamlfile.Element) error {
		err := d.append(item, pointer+"/"+strconv.Itoa(i), depth+1)
		d.text = append(d.text, ',')
		i++
		return err
	})
	d.text = append(bytes.TrimSuffix(d.text, []byte(",")), ']')
	return err
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)

// scalarOf is the JSON spelling of a scalar. A date is a text, as in JSON.
func scalarOf(e yamlfile.Element) ([]byte, error) {
	node := e.Resolved()
	switch tag := node.ShortTag(); tag {
	case "!!str", "!!timestamp":
		text, err := jsontext.AppendQuote(nil, node.Value)
		if err != nil {
			return nil, e.Errorf("is no text: %s", oneLine(err.Error()))
		}
		return text, nil
	case "!!null":
		return []byte("null"), nil
	case "!!bool":
		on, err := e.Flag()
		return strconv.AppendBool(nil, on), err
	case "!!int", "!!float":
		if !jsonNumber.MatchString(node.Value) {
			return nil, e.Errorf("is %s: write it as JSON does, or in quotes if it is a text", yamlfile.TypeName(node))
		}
		return []byte(node.Value), nil
	}
	return nil, e.Errorf("is %s: write a text, a number, true, false or null", yamlfile.TypeName(node))
}

// parseDocument is the JSON value that a file holds.
func parseDocument(file string, text []byte) (*document, error) {
	d := &document{file: file, text: text, lines: map[string]int{}}
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	line, counted := 1, int64(0)
	for {
		_, err := decoder.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		line += bytes.Count(text[counted:decoder.InputOffset()], []byte("\n"))
		counted = decoder.InputOffset()
		if err != nil {
			rest := text[counted:]
			line += bytes.Count(rest[:len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,"))], []byte("\n"))
			return nil, yamlfile.Errorf(file, line, "this is not JSON: %s", oneLine(strings.TrimPrefix(err.Error(), "jsontext: ")))
		}
		pointer := string(decoder.StackPointer())
		if _, there := d.lines[pointer]; !there {
			d.lines[pointer] = line
		}
		if decoder.StackDepth() > mostDepth {
			return nil, yamlfile.Errorf(file, line, "this is nested deeper than %d levels: flatten it", mostDepth)
		}
	}
	if err := onejob.CheckJSON("this", text, mostDepth); err != nil {
		return nil, yamlfile.Errorf(file, line, "%s", oneLine(err.Error()))
	}
	return d, nil
}

// escaped is a name as a part of a JSON Pointer.
func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
