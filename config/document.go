package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob"
)

// element is a value of the file: it knows where it stands and what it belongs to.
type element struct {
	file *file
	node *yaml.Node
	path string // providers.primary.timeout
}

// file is what all elements of one file share.
type file struct {
	name      string
	lookupEnv func(string) (string, bool)
	notices   []notice
}

type notice struct {
	line int
	text string
}

// document returns the one document in text.
func (f *file) document(text []byte) (element, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return element{}, f.syntaxError(err)
	}
	var first, second yaml.Node
	if err := loader.Load(&first); errors.Is(err, io.EOF) {
		return element{}, f.errorf(1, "the file is empty: name providers and kinds")
	} else if err != nil {
		return element{}, f.syntaxError(err)
	}
	if err := loader.Load(&second); err == nil {
		return element{}, f.errorf(second.Line, "a second document begins: keep one in the file")
	} else if !errors.Is(err, io.EOF) {
		return element{}, f.syntaxError(err)
	}
	return element{file: f, node: first.Content[0]}, nil
}

// syntaxError puts the line where ours stands, if the parser knows one.
func (f *file) syntaxError(err error) error {
	var at string
	message := err.Error()
	if syntax, ok := errors.AsType[*yaml.LoadError](err); ok {
		message = syntax.Message
		if syntax.Mark.Line > 0 {
			at = fmt.Sprintf(":%d", syntax.Mark.Line)
		}
	}
	return onejob.Errorf(onejob.CodeMisconfigured, "%s%s: this is not yaml: %.200s", f.name, at, strings.Join(strings.Fields(message), " "))
}

func (f *file) errorf(line int, format string, args ...any) error {
	return onejob.Errorf(onejob.CodeMisconfigured, "%s:%d: %w", f.name, line, fmt.Errorf(format, args...))
}

func (f *file) note(line int, format string, args ...any) {
	f.notices = append(f.notices, notice{line, fmt.Sprintf("%s:%d: %s", f.name, line, fmt.Sprintf(format, args...))})
}

// errorf returns an error at the element's line.
func (e element) errorf(format string, args ...any) error {
	where := e.path
	if where == "" {
		where = "the file"
	}
	return e.file.errorf(e.node.Line, "%s %w", where, fmt.Errorf(format, args...))
}

// unused notes that this version checks the element and does not act on it.
func (e element) unused() {
	e.file.note(e.node.Line, "%s is checked but not used by this version", e.path)
}

// member reads one member of a mapping.
type member func(element) error

// set is a member that stores what read returns.
func set[T any](target *T, read func(element) (T, error)) member {
	return func(e element) (err error) {
		*target, err = read(e)
		return err
	}
}

// members is a mapping with known names.
func (e element) members(known map[string]member) error {
	return e.entries(func(key string, value element) error {
		read, ok := known[key]
		if !ok {
			return e.file.errorf(value.node.Line, "unknown field %s in %s: %s", quoted(key), e.section(), suggestion(key, known))
		}
		return read(value)
	})
}

func (e element) section() string {
	if e.path == "" {
		return "the file"
	}
	return e.path
}

// entries is a mapping with names that the file chooses, in the order of the file. An
// absent value is an empty mapping.
func (e element) entries(read func(name string, value element) error) error {
	node := e.resolved()
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return e.errorf("is %s: write it as name: value", typeName(node))
	}
	seen := map[string]int{}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			return e.file.errorf(key.Line, "a name in %s is %s: write it as text", e.section(), typeName(key))
		}
		if line, twice := seen[key.Value]; twice {
			return e.file.errorf(key.Line, "%s stands twice in %s, first in line %d: remove one", quoted(key.Value), e.section(), line)
		}
		seen[key.Value] = key.Line
		if err := read(key.Value, e.child(key, value)); err != nil {
			return err
		}
	}
	return nil
}

// child is the value under key. It stands where the key stands: a mapping's own line
// is the one behind it.
func (e element) child(key, value *yaml.Node) element {
	at := *value
	at.Line = key.Line
	return element{file: e.file, node: &at, path: strings.TrimPrefix(e.path+"."+shown(key.Value), ".")}
}

// list is a sequence.
func (e element) list(read func(element) error) error {
	node := e.resolved()
	if node.Kind != yaml.SequenceNode {
		return e.errorf("is %s: write it as a list, [a, b]", typeName(node))
	}
	for i, value := range node.Content {
		if err := read(element{file: e.file, node: value, path: fmt.Sprintf("%s[%d]", e.path, i)}); err != nil {
			return err
		}
	}
	return nil
}

// resolved follows an alias.
func (e element) resolved() *yaml.Node {
	if e.node.Kind == yaml.AliasNode {
		return e.node.Alias
	}
	return e.node
}

func typeName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "empty"
	case "!!str":
		return "the text " + quoted(node.Value)
	case "!!int", "!!float":
		return "the number " + shown(node.Value)
	}
	return quoted(node.Value) + " of type " + shown(strings.TrimPrefix(node.ShortTag(), "!!"))
}

// suggestion is the remedy for a name that is not known.
func suggestion(name string, known map[string]member) string {
	names := slices.Sorted(maps.Keys(known))
	best := slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, best) <= 2 {
		return "did you mean " + best + "?"
	}
	return "use one of " + strings.Join(names, ", ")
}

// distance is the number of letters to insert, remove or change to make b of a. Names
// too long to be a slip are far from everything.
func distance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func quoted(s string) string { return fmt.Sprintf("%q", beginning(s)) }

// shown is a name or number of the file within an error line.
func shown(s string) string { return strings.Trim(quoted(s), `"`) }

// beginning is as much of s as an error line holds, in whole characters.
func beginning(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
