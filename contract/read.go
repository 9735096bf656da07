package contract

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/internal/yamlfile"
)

// The bounds and defaults of what a file says.
const (
	mostVersion     = 1_000_000
	mostRules       = 200
	mostCases       = 1000
	mostFacts       = 200
	mostRuns        = 100
	mostTokens      = 10_000_000
	mostProblems    = 100
	longestLatency  = 24 * time.Hour
	shortestValid   = time.Hour
	longestValid    = 366 * 24 * time.Hour
	defaultRuns     = 3
	defaultTokens   = 4096
	defaultValidFor = 30 * 24 * time.Hour
)

// defaultEnds are what the vendors call the end of a whole answer.
var defaultEnds = []string{"stop", "completed", "end_turn"}

// reader reads one contract and collects what is wrong with it.
type reader struct {
	*Contract
	name     string
	beside   fs.FS
	problems Problems

	systemText, userText      located
	inputSchema, outputSchema *document
}

// located is a text of the contract and where it stands.
type located struct {
	text string
	file string
	line int // of the first line of the text
}

func (l located) errorf(format string, args ...any) error {
	return yamlfile.Errorf(l.file, l.line, format, args...)
}

// Parse reads the text of a contract. Name stands in front of every problem; beside has the
// files that the contract names. It returns an [onejob.ErrMisconfigured] around [Problems].
func Parse(name string, text []byte, beside fs.FS) (*Contract, error) {
	r := &reader{name: name, beside: beside, Contract: &Contract{
		File:       name,
		Parameters: Parameters{MaxTokens: defaultTokens, ResponseFormat: FormatJSONObject},
		Ends:       defaultEnds, ValidFor: defaultValidFor, SideEffects: true,
	}}
	top, err := yamlfile.Document(name, text, "name version, kind, prompt, schemas, cases and canary")
	r.keep(err)
	if err == nil {
		r.readTop(top)
	}
	if len(r.problems) == 0 {
		r.compile()
	}
	if len(r.problems) > 0 {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "%w", r.sorted())
	}
	r.SHA256, err = r.identity()
	if err != nil {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "%w", Problems{{File: name, Line: 1, Text: oneLine(err.Error())}})
	}
	return r.Contract, nil
}

// keep notes what is wrong and goes on.
func (r *reader) keep(err error) {
	if err == nil || len(r.problems) >= mostProblems {
		return
	}
	p, ok := problemOf(err)
	if !ok {
		p = Problem{File: r.name, Line: 1, Text: oneLine(err.Error())}
	}
	r.problems = append(r.problems, p)
}

func (r *reader) sorted() Problems {
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return slices.Compact(r.problems)
}

type member = func(yamlfile.Element) error

// members reads a mapping with known names; what is wrong with one does not keep the
// others from being read.
func (r *reader) members(e yamlfile.Element, known map[string]member) (seen map[string]bool) {
	seen = map[string]bool{}
	r.keep(e.Entries(func(name string, value yamlfile.Element) error {
		read, ok := known[name]
		if !ok {
			r.keep(value.Unknown(name, e, slices.Collect(maps.Keys(known))))
			return nil
		}
		seen[name] = true
		r.keep(read(value))
		return nil
	}))
	return seen
}

// set is a member that stores what read returns.
func set[T any](target *T, read func(yamlfile.Element) (T, error)) member {
	return func(e yamlfile.Element) (err error) {
		*target, err = read(e)
		return err
	}
}

func oneOf(values ...string) func(yamlfile.Element) (string, error) {
	return func(e yamlfile.Element) (string, error) { return e.OneOf(values...) }
}

func whole(least, most int) func(yamlfile.Element) (int, error) {
	return func(e yamlfile.Element) (int, error) { return e.Whole(least, most) }
}

func duration(shortest, longest time.Duration) func(yamlfile.Element) (time.Duration, error) {
	return func(e yamlfile.Element) (time.Duration, error) { return e.Duration(shortest, longest) }
}

// chosen stores whether the text is the word, which is the first of two.
func chosen(target *bool, word, other string) member {
	return func(e yamlfile.Element) error {
		s, err := e.OneOf(word, other)
		*target = s == word
		return err
	}
}

func (r *reader) readTop(top yamlfile.Element) {
	seen := r.members(top, map[string]member{
		"version":            set(&r.Version, whole(1, mostVersion)),
		"kind":               set(&r.Kind, kindName),
		"side_effects":       chosen(&r.SideEffects, "external", "none"),
		"prompt":             r.readPrompt,
		"input_schema":       set(&r.inputSchema, documentOf),
		"input_schema_file":  set(&r.inputSchema, r.documentBeside),
		"output_schema":      set(&r.outputSchema, documentOf),
		"output_schema_file": set(&r.outputSchema, r.documentBeside),
		"unknown_keys":       chosen(&r.UnknownKeys, "allow", "refuse"),
		"special_tokens":     chosen(&r.NeutraliseInput, "neutralise", "refuse"),
		"rules":              r.readRules,
		"parameters":         r.readParameters,
		"ends":               r.readEnds,
		"cases":              r.readCases,
		"canary":             r.readCanary,
		"ceilings":           r.readCeilings,
		"certificate":        r.readCertificate,
	})
	r.keep(required(top, seen, "version", "kind", "prompt", "cases", "canary"))
	r.keep(exactlyOne(top, seen, "input_schema", "input_schema_file"))
	r.keep(exactlyOne(top, seen, "output_schema", "output_schema_file"))
}

func required(e yamlfile.Element, seen map[string]bool, names ...string) error {
	var missing []string
	for _, name := range names {
		if !seen[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return e.Errorf("has no %s: add it", strings.Join(missing, ", "))
}

func exactlyOne(e yamlfile.Element, seen map[string]bool, names ...string) error {
	n := 0
	for _, name := range names {
		if seen[name] {
			n++
		}
	}
	switch n {
	case 1:
		return nil
	case 0:
		return e.Errorf("has none of %s: add one", strings.Join(names, ", "))
	}
	return e.Errorf("has more than one of %s: keep one", strings.Join(names, ", "))
}

func kindName(e yamlfile.Element) (string, error) {
	s, err := e.Text()
	if err == nil && (len(s) > 100 || strings.ContainsFunc(s, unicode.IsSpace)) {
		return "", e.Errorf("is %s: give 1 to 100 bytes without white space", yamlfile.Quoted(s))
	}
	return s, err
}

func (r *reader) readPrompt(e yamlfile.Element) error {
	seen := r.members(e, map[string]member{
		"system":      set(&r.systemText, prose),
		"system_file": set(&r.systemText, r.proseBeside),
		"user":        set(&r.userText, prose),
		"user_file":   set(&r.userText, r.proseBeside),
	})
	return cmp.Or(exactlyOne(e, seen, "system", "system_file"), exactlyOne(e, seen, "user", "user_file"))
}

// prose is a text of any number of lines.
func prose(e yamlfile.Element) (located, error) {
	node := e.Resolved()
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		return located{}, e.Errorf("is %s: write it as text, behind | if it has several lines", yamlfile.TypeName(node))
	}
	l := located{text: node.Value, file: e.File, line: e.Node.Line}
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		l.line++
	}
	return l, checkProse(l)
}

func checkProse(l located) error {
	if strings.TrimSpace(l.text) == "" {
		return l.errorf("the text is empty: write one")
	}
	if strings.ContainsFunc(l.text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return l.errorf("the text holds a control character: remove it")
	}
	return nil
}

// proseBeside is the text of a file beside the contract. How its lines end does not matter.
func (r *reader) proseBeside(e yamlfile.Element) (located, error) {
	file, text, err := r.fileBeside(e)
	if err != nil {
		return located{}, err
	}
	l := located{text: strings.ReplaceAll(string(text), "\r\n", "\n"), file: file, line: 1}
	return l, checkProse(l)
}

// documentBeside is the JSON value in a file beside the contract.
func (r *reader) documentBeside(e yamlfile.Element) (*document, error) {
	file, text, err := r.fileBeside(e)
	if err != nil {
		return nil, err
	}
	return parseDocument(file, text)
}

// fileBeside reads the file that the element names. It stands in the contract's folder or
// below, so that a contract can be handed over with its folder.
func (r *reader) fileBeside(e yamlfile.Element) (file string, text []byte, err error) {
	name, err := e.Text()
	if err != nil {
		return "", nil, err
	}
	if !fs.ValidPath(name) || strings.Contains(name, `\`) {
		return "", nil, e.Errorf("is %s: name a file in the contract's folder or below, like cases/first.json", yamlfile.Quoted(name))
	}
	text, err = readFile(r.beside, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, e.Errorf("is %s, which is not beside the contract: write that file or correct the name", yamlfile.Quoted(name))
	case err != nil:
		return "", nil, e.Errorf("is %s, which cannot be read: %s", yamlfile.Quoted(name), oneLine(err.Error()))
	case strings.ContainsRune(string(text), 0) || strings.ToValidUTF8(string(text), "") != string(text):
		return "", nil, e.Errorf("is %s, which is not text: use UTF-8", yamlfile.Quoted(name))
	}
	return path.Join(path.Dir(r.name), name), text, nil
}
