// Package yamlfile reads a YAML file node by node, so that every refusal names the file,
// the line, the value and the remedy.
//
// Its errors are [onejob.ErrMisconfigured] around a [Problem]. It reads no file itself
// and imports the domain only.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob"
)

// Element is a value of the file: it knows where it stands and what it belongs to.
type Element struct {
	File string
	Node *yaml.Node
	Path string // providers.primary.timeout; "": the whole file
}

// Problem is what is wrong in one place of a file.
type Problem struct {
	File string
	Line int // 0: not known
	Err  error
}

func (p *Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %v", p.File, p.Err)
	}
	return fmt.Sprintf("%s:%d: %v", p.File, p.Line, p.Err)
}

// Unwrap returns what is wrong.
func (p *Problem) Unwrap() error { return p.Err }

// Errorf returns an error at the line of the file.
func Errorf(file string, line int, format string, args ...any) error {
	return onejob.Errorf(onejob.CodeMisconfigured, "%w", &Problem{file, line, fmt.Errorf(format, args...)})
}

// Document returns the one document in text. Content says what an empty file lacks.
func Document(file string, text []byte, content string) (Element, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return Element{}, syntaxError(file, err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return Element{}, Errorf(file, 1, "the file is empty: %s", content)
	} else if err != nil {
		return Element{}, syntaxError(file, err)
	}
	if err := loader.Load(&second); err == nil {
		return Element{}, Errorf(file, second.Line, "a second document begins: keep one in the file")
	} else if !errors.Is(err, io.EOF) {
		return Element{}, syntaxError(file, err)
	}
	return Element{File: file, Node: first.Content[0]}, nil
}

// syntaxError puts the line where ours stands, if the parser knows one.
func syntaxError(file string, err error) error {
	line, message := 0, err.Error()
	if syntax, ok := errors.AsType[*yaml.LoadError](err); ok {
		line, message = max(syntax.Mark.Line, 0), syntax.Message
	}
	return Errorf(file, line, "this is not yaml: %.200s", strings.Join(strings.Fields(message), " "))
}

// Errorf returns an error at the element's line.
func (e Element) Errorf(format string, args ...any) error {
	return Errorf(e.File, e.Node.Line, "%s %w", e.Section(), fmt.Errorf(format, args...))
}

// Section names the element in an error line.
func (e Element) Section() string {
	if e.Path == "" {
		return "the file"
	}
	return e.Path
}

// Unknown returns the error for a member that is none of the known ones of the section.
func (e Element) Unknown(name string, section Element, known []string) error {
	return Errorf(e.File, e.Node.Line, "unknown field %s in %s: %s", Quoted(name), section.Section(), Suggestion(name, known))
}

// Entries reads a mapping with names that the file chooses, in the order of the file. An
// absent value is an empty mapping.
func (e Element) Entries(read func(name string, value Element) error) error {
	node := e.Resolved()
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return e.Errorf("is %s: write it as name: value", TypeName(node))
	}
	seen := map[string]int{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return Errorf(e.File, key.Line, "a name in %s is %s: write it as text", e.Section(), TypeName(key))
		}
		if line, twice := seen[key.Value]; twice {
			return Errorf(e.File, key.Line, "%s stands twice in %s, first in line %d: remove one", Quoted(key.Value), e.Section(), line)
		}
		seen[key.Value] = key.Line
		if err := read(key.Value, e.Child(key, value)); err != nil {
			return err
		}
	}
	return nil
}

// Child is the value under key. It stands where the key stands: a mapping's own line
// is the one behind it.
func (e Element) Child(key, value *yaml.Node) Element {
	at := *value
	at.Line = key.Line
	return Element{File: e.File, Node: &at, Path: strings.TrimPrefix(e.Path+"."+Shown(key.Value), ".")}
}

// List reads a sequence.
func (e Element) List(read func(Element) error) error {
	node := e.Resolved()
	if node.Kind != yaml.SequenceNode {
		return e.Errorf("is %s: write it as a list, [a, b]", TypeName(node))
	}
	for i, value := range node.Content {
		if err := read(Element{File: e.File, Node: value, Path: fmt.Sprintf("%s[%d]", e.Path, i)}); err != nil {
			return err
		}
	}
	return nil
}

// Resolved follows an alias.
func (e Element) Resolved() *yaml.Node {
	if e.Node.Kind == yaml.AliasNode {
		return e.Node.Alias
	}
	return e.Node
}
