package contract

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"github.com/onejob/onejob/internal/yamlfile"
)

// place is the schema of a part of an input or reply, if it is known.
type place struct {
	*schema // nil: not known
	pointer string
}

// object is the schema at the place, with its references followed.
func (p place) object() (map[string]any, place) {
	for p.schema != nil {
		value, _ := pointed(p.root, p.pointer)
		object, ok := value.(map[string]any)
		if !ok {
			break
		}
		target, refers := localRef(object["$ref"])
		if !refers {
			return object, p
		}
		if len(object) > 1 { // more is said here than there
			break
		}
		p.pointer = target
	}
	return nil, place{}
}

// loose are the keywords by which members come that properties does not name.
var loose = []string{"patternProperties", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$ref"}

// member is the place of a member. The error says that there is none: a schema that lists
// its members and does not list this one.
func (p place) member(name string) (place, error) {
	object, at := p.object()
	properties, ok := object["properties"].(map[string]any)
	if !ok {
		return place{}, nil
	}
	if _, named := properties[name]; named {
		return place{at.schema, at.pointer + "/properties/" + escaped(name)}, nil
	}
	rest, there := object["additionalProperties"]
	isLoose := slices.ContainsFunc(loose, func(keyword string) bool { _, used := object[keyword]; return used })
	if isLoose || there && rest != false || len(properties) == 0 {
		return place{}, nil
	}
	return place{}, fmt.Errorf("names %s, which the schema does not: %s", yamlfile.Quoted(name), yamlfile.Suggestion(name, slices.Collect(maps.Keys(properties))))
}

// item is the place of the items of a list.
func (p place) item() place {
	object, at := p.object()
	_, tuple := object["prefixItems"]
	if _, ok := object["items"].(map[string]any); !ok || tuple {
		return place{}
	}
	return place{at.schema, at.pointer + "/items"}
}

// at is the place that a JSON Pointer names.
func (p place) at(pointer string) (place, error) {
	for _, part := range pointerParts(pointer) {
		if object, _ := p.object(); object["items"] != nil {
			if _, err := strconv.Atoi(part); err == nil {
				p = p.item()
				continue
			}
		}
		var err error
		if p, err = p.member(part); err != nil {
			return place{}, err
		}
	}
	return p, nil
}

// placer follows the places of an expression.
type placer struct {
	*program
	err error
}

// checkPlaces refuses an expression that names a member which a schema does not.
func (p *program) checkPlaces(scope map[string]place) error {
	w := placer{program: p}
	w.of(p.checked.NativeRep().Expr(), scope)
	return w.err
}

func (w *placer) fail(e ast.Expr, err error) {
	if w.err == nil && err != nil {
		line := w.checked.NativeRep().SourceInfo().GetStartLocation(e.ID()).Line()
		w.err = yamlfile.Errorf(w.source.file, w.source.line+max(line-1, 0), "the expression %w", err)
	}
}

// of returns the place of an expression, and looks at everything below it.
func (w *placer) of(e ast.Expr, scope map[string]place) place {
	switch e.Kind() {
	case ast.IdentKind:
		return scope[e.AsIdent()]
	case ast.SelectKind:
		return w.member(e, w.of(e.AsSelect().Operand(), scope), e.AsSelect().FieldName())
	case ast.CallKind:
		return w.ofCall(e, scope)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			w.of(item, scope)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.of(entry.AsMapEntry().Key(), scope)
			w.of(entry.AsMapEntry().Value(), scope)
		}
	case ast.ComprehensionKind:
		w.ofComprehension(e.AsComprehension(), scope)
	}
	return place{}
}

func (w *placer) member(e ast.Expr, of place, name string) place {
	member, err := of.member(name)
	w.fail(e, err)
	return member
}

func (w *placer) ofCall(e ast.Expr, scope map[string]place) place {
	call := e.AsCall()
	if call.IsMemberFunction() {
		w.of(call.Target(), scope)
	}
	var places []place
	for _, argument := range call.Args() {
		places = append(places, w.of(argument, scope))
	}
	if call.FunctionName() != operators.Index || len(places) != 2 {
		return place{}
	}
	if key := call.Args()[1]; key.Kind() == ast.LiteralKind {
		if name, ok := key.AsLiteral().Value().(string); ok {
			return w.member(e, places[0], name)
		}
	}
	return places[0].item()
}

// ofComprehension is what the macros all, exists, map and filter stand for: the variable is
// an item of the range.
func (w *placer) ofComprehension(c ast.ComprehensionExpr, scope map[string]place) {
	inner := maps.Clone(scope)
	inner[c.IterVar()] = w.of(c.IterRange(), scope).item()
	inner[c.IterVar2()] = place{}
	inner[c.AccuVar()] = place{}
	for _, part := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
		w.of(part, inner)
	}
}
