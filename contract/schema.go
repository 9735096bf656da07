package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// dialect is the one that schemas are written in.
const dialect = "https://json-schema.org/draft/2020-12/schema"

// schema is a JSON Schema of a contract. Formats are checked, and nothing is loaded from
// elsewhere. It cannot refer to itself, so checking a value takes bounded time.
type schema struct {
	*document
	root     any
	compiled *jsonschema.Schema

	compiler *jsonschema.Compiler
	parts    map[string]*jsonschema.Schema // while the contract is read only
}

func (s *schema) text() json.RawMessage { return slices.Clone(s.document.text) }

func compileSchema(d *document) (*schema, error) {
	root, f := parseValue(d.text, mostFileBytes)
	if f != nil {
		return nil, d.errorf(f.Path, "the schema is not JSON: %s", f.Detail)
	}
	s := &schema{document: d, root: root, compiler: jsonschema.NewCompiler(), parts: map[string]*jsonschema.Schema{}}
	if err := s.checkShape(); err != nil {
		return nil, err
	}
	c := s.compiler
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, root); err != nil {
		return nil, s.errorf("", "the schema cannot be used: %s", oneLine(err.Error()))
	}
	var err error
	if s.compiled, err = c.Compile(schemaURL); err != nil {
		return nil, s.compileError(err)
	}
	return s, nil
}

// fragment is a JSON Pointer as the fragment of a URL.
func fragment(pointer string) string {
	return (&url.URL{Fragment: pointer}).EscapedFragment()
}

const schemaURL = "contract:schema"

type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("schemas are not loaded from elsewhere: write it under $defs")
}

// compileError puts the line of the part that the compiler means.
func (s *schema) compileError(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if broken, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			leaf := leaves(broken, nil)[0]
			at := pointerOf(leaf.InstanceLocation)
			return s.errorf(at, "the schema at %s: %s", orRoot(at), oneLine(leaf.ErrorKind.LocalizedString(english)))
		}
	}
	_, at, _ := strings.Cut(err.Error(), schemaURL+"#")
	at, _, _ = strings.Cut(at, "'")
	at, _, _ = strings.Cut(at, `"`)
	if _, ok := s.lines[at]; !ok {
		at = ""
	}
	return s.errorf(at, "the schema cannot be used: %s", oneLine(strings.ReplaceAll(err.Error(), schemaURL, "")))
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "its root"
	}
	return pointer
}

var english = message.NewPrinter(language.English)

// broken is a finding of a schema.
type broken struct {
	Finding
	aboutKeys bool // it is about the top-level members that are not named
}

// check returns what of the value breaks the schema.
func (s *schema) check(value any) (findings []broken) {
	err := s.compiled.Validate(value)
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok && err != nil {
		return []broken{{Finding: Finding{Code: CodeSchema, Detail: err.Error()}}}
	}
	if err == nil {
		return nil
	}
	for _, leaf := range leaves(invalid, nil) {
		_, additional := leaf.ErrorKind.(*kind.AdditionalProperties)
		findings = append(findings, broken{
			Finding{Code: CodeSchema, Path: pointerOf(leaf.InstanceLocation), Detail: leaf.ErrorKind.LocalizedString(english)},
			additional && len(leaf.InstanceLocation) == 0,
		})
	}
	return findings
}

// leaves are the errors that name what is wrong, at most mostFindings.
func leaves(e *jsonschema.ValidationError, found []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			found = leaves(cause, found)
		}
		return found
	}
	if len(found) < mostFindings {
		found = append(found, e)
	}
	return found
}

// The keywords whose values hold schemas.
var (
	schemasByName = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	schemaLists   = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	oneSchema     = []string{"not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames",
		"unevaluatedProperties", "unevaluatedItems", "contentSchema"}
	definitions = []string{"$defs", "definitions"}
)

// subschemas calls visit for each schema that stands directly in the one at the pointer.
func subschemas(schema map[string]any, pointer string, visit func(keyword, pointer string, sub any)) {
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		at := pointer + "/" + escaped(keyword)
		switch value := schema[keyword].(type) {
		case map[string]any:
			if slices.Contains(schemasByName, keyword) {
				for _, name := range slices.Sorted(maps.Keys(value)) {
					visit(keyword, at+"/"+escaped(name), value[name])
				}
			} else if slices.Contains(oneSchema, keyword) {
				visit(keyword, at, value)
			}
		case []any:
			for i, sub := range value {
				if slices.Contains(schemaLists, keyword) {
					visit(keyword, at+"/"+strconv.Itoa(i), sub)
				}
			}
		}
	}
}

// mostSubschemas bounds a schema with its references written out.
const mostSubschemas = 10_000

// checkShape refuses what would load something, never end or take forever.
func (s *schema) checkShape() error {
	switch root := s.root.(type) {
	case bool:
		return nil
	case map[string]any:
		if named, ok := root["$schema"]; ok && named != dialect && named != dialect+"#" {
			return s.errorf("/$schema", "the schema is of another dialect than %s: write it in that one", dialect)
		}
		size := sizer{schema: s, sizes: map[string]int{}}
		_, err := size.of("")
		return err
	}
	return s.errorf("", "the schema is neither a mapping nor true or false: write one")
}

// sizer counts the schemas that one stands for.
type sizer struct {
	*schema
	sizes map[string]int // by pointer; 0: being counted
}

func (z *sizer) of(pointer string) (int, error) {
	if n, ok := z.sizes[pointer]; ok {
		if n == 0 {
			return 0, z.errorf(pointer, "the schema at %s refers to itself: write out as many levels as replies have", orRoot(pointer))
		}
		return n, nil
	}
	value, ok := pointed(z.root, pointer)
	if !ok {
		return 0, z.errorf(pointer, "the schema refers to %s, which is not there: correct the $ref", pointer)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return 1, nil
	}
	z.sizes[pointer] = 0
	n, err := z.ofObject(object, pointer)
	if err == nil && n > mostSubschemas {
		err = z.errorf(pointer, "the schema at %s stands for more than %d schemas, references written out: make it smaller", orRoot(pointer), mostSubschemas)
	}
	z.sizes[pointer] = n
	return n, err
}

func (z *sizer) ofObject(object map[string]any, pointer string) (n int, err error) {
	n = 1
	for _, keyword := range []string{"$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id"} {
		if _, there := object[keyword]; there && !(keyword == "$id" && pointer == "") {
			return 0, z.errorf(pointer+"/"+keyword, "the schema uses %s: refer by $ref to a place like #/$defs/name", keyword)
		}
	}
	count := func(pointer string) {
		if err == nil {
			var more int
			more, err = z.of(pointer)
			n += more
		}
	}
	if ref, there := object["$ref"]; there {
		target, ok := localRef(ref)
		if !ok {
			return 0, z.errorf(pointer+"/$ref", "the schema refers to %s: nothing is loaded from elsewhere, write it under $defs and refer to #/$defs/name", oneLine(fmt.Sprint(ref)))
		}
		count(target)
	}
	subschemas(object, pointer, func(keyword, at string, _ any) {
		before := n
		count(at)
		if slices.Contains(definitions, keyword) {
			n = before // they count where they are referred to
		}
	})
	return n, err
}

// localRef is the JSON Pointer of a reference within the schema.
func localRef(ref any) (pointer string, ok bool) {
	text, _ := ref.(string)
	fragment, local := strings.CutPrefix(text, "#")
	pointer, err := url.PathUnescape(fragment)
	return pointer, local && err == nil && (pointer == "" || pointer[0] == '/')
}

// keys are the top-level members that a schema names.
type keys struct {
	names    map[string]bool
	patterns []*regexp.Regexp
	open     bool // it says itself that there may be others
	closed   bool // it says itself that there may be none
}

func (s *schema) keys() keys {
	k := keys{names: map[string]bool{}}
	s.collectKeys(s.root, &k)
	return k
}

func (s *schema) collectKeys(value any, k *keys) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	if target, ok := localRef(object["$ref"]); ok {
		referred, _ := pointed(s.root, target) // it is there: the compiler has looked
		s.collectKeys(referred, k)
	}
	for _, keyword := range []string{"additionalProperties", "unevaluatedProperties"} {
		if rest, there := object[keyword]; there {
			k.open = k.open || rest != false
			k.closed = k.closed || rest == false
		}
	}
	subschemas(object, "", func(keyword, at string, sub any) {
		name := pointerParts(at)
		switch keyword {
		case "properties":
			k.names[name[1]] = true
		case "patternProperties":
			if pattern, err := regexp.Compile(name[1]); err == nil { // it does: the compiler has looked
				k.patterns = append(k.patterns, pattern)
			}
		case "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas":
			s.collectKeys(sub, k)
		}
	})
}

func (k keys) has(name string) bool {
	return k.names[name] || slices.ContainsFunc(k.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}
