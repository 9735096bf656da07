package contract

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	texttemplate "text/template"
	"text/template/parse"

	"github.com/onejob/onejob/internal/yamlfile"
)

// template is one part of the prompt. It has only what cannot surprise: values, if, with,
// range and a few functions. What an input lacks, and what cannot be shown as text, is an
// error; an input is never read as a template.
type template struct {
	name   string
	source located
	parsed *texttemplate.Template
}

// The functions that are put around what a template shows and goes through.
const (
	showFunction    = "_show"
	throughFunction = "_through"
)

// allowed are the functions that a template may use.
var allowed = []string{"and", "or", "not", "len", "eq", "ne", "lt", "le", "gt", "ge", "index", "has", "json", "join", "lower", "upper", "trim"}

func parseTemplate(name string, source located) (*template, error) {
	steps := 0
	parsed, err := texttemplate.New(name).Option("missingkey=error").Funcs(functions(&steps)).Parse(source.text)
	if err != nil {
		line, message := templateLine(name, err)
		return nil, yamlfile.Errorf(source.file, source.line+line-1, "the %s prompt is no template: %s", name, message)
	}
	t := &template{name, source, parsed}
	if len(parsed.Templates()) > 1 {
		return nil, source.errorf("the %s prompt defines a template: write its text where it belongs", name)
	}
	if parsed.Tree == nil {
		return nil, source.errorf("the %s prompt is empty: write one", name)
	}
	return t, t.prepare(parsed.Root)
}

var templatePlace = regexp.MustCompile(`^template: \w+:(\d+)(?::\d+)?: (?:executing "\w+" )?`)

// templateLine is the line of the template that an error names, and the rest of it.
func templateLine(name string, err error) (line int, message string) {
	message = err.Error()
	match := templatePlace.FindStringSubmatch(message)
	if match == nil {
		return 1, oneLine(message)
	}
	line, _ = strconv.Atoi(match[1]) // digits
	return line, oneLine(message[len(match[0]):])
}

// errorf returns an error at the line where the node stands.
func (t *template) errorf(node parse.Node, format string, args ...any) error {
	before := t.source.text[:min(int(node.Position()), len(t.source.text))]
	return yamlfile.Errorf(t.source.file, t.source.line+strings.Count(before, "\n"), format, args...)
}

// prepare checks a node and what is below it, and puts our functions around values.
func (t *template) prepare(node parse.Node) error {
	switch n := node.(type) {
	case *parse.ListNode:
		return t.prepareList(n)
	case *parse.TextNode:
		return t.checkText(n, string(n.Text))
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			t.pipe(n.Pipe, showFunction)
		}
		return t.checkPipe(n.Pipe)
	case *parse.IfNode:
		return t.prepareBranch(&n.BranchNode)
	case *parse.WithNode:
		return t.prepareBranch(&n.BranchNode)
	case *parse.RangeNode:
		t.pipe(n.Pipe, throughFunction)
		return t.prepareBranch(&n.BranchNode)
	case *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	}
	return t.errorf(node, "the %s prompt uses %s: write its text where it belongs", t.name, oneLine(node.String()))
}

func (t *template) prepareList(list *parse.ListNode) error {
	if list == nil {
		return nil
	}
	for _, node := range list.Nodes {
		if err := t.prepare(node); err != nil {
			return err
		}
	}
	return nil
}

func (t *template) prepareBranch(n *parse.BranchNode) error {
	if err := t.checkPipe(n.Pipe); err != nil {
		return err
	}
	if err := t.prepareList(n.List); err != nil {
		return err
	}
	return t.prepareList(n.ElseList)
}

// pipe puts a function behind the pipeline.
func (t *template) pipe(pipe *parse.PipeNode, function string) {
	pipe.Cmds = append(pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: pipe.Pos,
		Args: []parse.Node{parse.NewIdentifier(function).SetTree(t.parsed.Tree).SetPos(pipe.Pos)}})
}

func (t *template) checkPipe(pipe *parse.PipeNode) error {
	for _, command := range pipe.Cmds {
		for _, argument := range command.Args {
			if err := t.checkArgument(argument); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *template) checkArgument(node parse.Node) error {
	switch n := node.(type) {
	case *parse.IdentifierNode:
		if !slices.Contains(allowed, n.Ident) && n.Ident != showFunction && n.Ident != throughFunction {
			return t.errorf(n, "the %s prompt uses the function %s: use one of %s", t.name, n.Ident, strings.Join(allowed, ", "))
		}
	case *parse.StringNode:
		return t.checkText(n, n.Text)
	case *parse.PipeNode:
		return t.checkPipe(n)
	case *parse.ChainNode:
		return t.checkArgument(n.Node)
	}
	return nil
}

// markers are what templates of another kind leave in a text: ${name}, {name}, {% if %},
// <% %>, { {.name}}, and what this kind prints for nothing.
var markers = regexp.MustCompile(`\$\{[^}\n]*\}|\{\.?[A-Za-z_][A-Za-z0-9_.]*\}|\{%|<%|\{\s+\{\s*\.|<no value>|\{\{|\{\s*\.[A-Za-z_]`)

// specialToken is what the special tokens of models look like.
var specialToken = regexp.MustCompile(`<\|[a-z_]{1,40}\|>`)

// checkText refuses what would reach the model as it stands and was not meant to.
func (t *template) checkText(node parse.Node, text string) error {
	if found := markers.FindString(text); found != "" {
		return t.errorf(node, "the %s prompt holds %s, which nothing replaces: write {{.name}} for a member of the input", t.name, yamlfile.Quoted(found))
	}
	if found := specialToken.FindString(text); found != "" {
		return t.errorf(node, "the %s prompt holds the special token %s: remove it, the provider's API sets the roles", t.name, found)
	}
	return nil
}

// The bounds of a rendered part and of what a template goes through for it.
const (
	mostPromptBytes = 16 << 20
	mostSteps       = 1_000_000
)

var (
	errTooMuch      = errors.New("the prompt has more than 16 MiB")
	errTooManySteps = errors.New("it goes through more than a million items")
)

// bounded is a text of at most mostPromptBytes.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostPromptBytes {
		return 0, errTooMuch
	}
	return b.Builder.Write(p)
}

// render returns the text for an input. The error is a [Finding].
func (t *template) render(input any) (string, error) {
	steps := 0
	own, err := t.parsed.Clone()
	if err == nil {
		var text bounded
		if err = own.Funcs(functions(&steps)).Execute(&text, input); err == nil {
			return text.String(), nil
		}
	}
	line, message := templateLine(t.name, err)
	return "", Finding{Code: CodeTemplate, Name: t.name, Detail: oneLine(fmt.Sprintf("line %d of the %s prompt: %s", line, t.name, message))}
}
