package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob/internal/yamlfile"
)

// element is a value of the file: it knows where it stands and what it belongs to.
type element struct {
	yamlfile.Element
	file *file
}

// file is what all elements of one file share.
type file struct {
	name      string
	lookupEnv func(string) (string, bool)
}

// document returns the one document in text.
func (f *file) document(text []byte) (element, error) {
	top, err := yamlfile.Document(f.name, text, "name providers and kinds")
	return element{top, f}, err
}

func (f *file) errorf(line int, format string, args ...any) error {
	return yamlfile.Errorf(f.name, line, format, args...)
}

// errorf returns an error at the element's line.
func (e element) errorf(format string, args ...any) error { return e.Errorf(format, args...) }

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
			return value.Unknown(key, e.Element, slices.Collect(maps.Keys(known)))
		}
		return read(value)
	})
}

// entries is a mapping with names that the file chooses, in the order of the file. An
// absent value is an empty mapping.
func (e element) entries(read func(name string, value element) error) error {
	return e.Entries(func(name string, value yamlfile.Element) error { return read(name, element{value, e.file}) })
}

// list is a sequence.
func (e element) list(read func(element) error) error {
	return e.List(func(item yamlfile.Element) error { return read(element{item, e.file}) })
}

// resolved follows an alias.
func (e element) resolved() *yaml.Node { return e.Resolved() }

func typeName(node *yaml.Node) string { return yamlfile.TypeName(node) }

func quoted(s string) string { return yamlfile.Quoted(s) }

// shown is a name or number of the file within an error line.
func shown(s string) string { return yamlfile.Shown(s) }
