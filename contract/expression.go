package contract

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/onejob/onejob/internal/yamlfile"
)

// The bounds of an expression: its length, its parts, how deep it is, the size of its
// regular expressions, and what evaluating it may cost.
const (
	mostExpressionChars = 10_000
	mostExpressionNodes = 2000
	deepestExpression   = 50
	largestRegexp       = 1000
	mostCost            = 500_000
)

// program is an expression of CEL that was checked.
type program struct {
	program cel.Program
	checked *cel.Ast
	source  located
}

// environment has the variables and functions that expressions know.
type environment func() (*cel.Env, error)

// The environments of rules and facts. Value is what a fact's path names.
var (
	ruleEnvironment environment = sync.OnceValues(func() (*cel.Env, error) { return newEnvironment("input", "output") })
	factEnvironment environment = sync.OnceValues(func() (*cel.Env, error) { return newEnvironment("input", "output", "value") })
)

func newEnvironment(variables ...string) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(mostExpressionChars),
		cel.ParserRecursionLimit(deepestExpression),
		cel.ExpressionNodeLimit(mostExpressionNodes),
		cel.ExpressionNestingDepthLimit(deepestExpression),
		cel.RegexProgramSizeLimit(largestRegexp),
	}
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewEnv(append(options, decimalFunctions()...)...)
}

// compileExpression checks an expression and its types.
func compileExpression(source located, known environment) (*program, error) {
	env, err := known()
	if err != nil {
		return nil, source.errorf("the expression cannot be checked: %s", oneLine(err.Error()))
	}
	checked, issues := env.Compile(source.text)
	if issues.Err() != nil {
		return nil, expressionError(source, issues)
	}
	if result := checked.OutputType(); !result.IsExactType(cel.BoolType) && !result.IsExactType(cel.DynType) {
		return nil, source.errorf("the expression gives %s: compare, so that it gives true or false", result)
	}
	compiled, err := env.Program(checked, cel.CostLimit(mostCost), cel.CostTracking(costs{}), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, source.errorf("the expression cannot be run: %s", oneLine(err.Error()))
	}
	return &program{compiled, checked, source}, nil
}

// expressionError is the first of the issues, at its line.
func expressionError(source located, issues *cel.Issues) error {
	first := issues.Errors()[0]
	line := source.line + max(first.Location.Line()-1, 0)
	return yamlfile.Errorf(source.file, line, "the expression is no CEL at column %d: %s", first.Location.Column()+1, oneLine(first.Message))
}

// values are what the variables of an expression stand for.
type values map[string]any

// with returns the values and one more.
func (v values) with(name string, value any) values {
	more := values{name: celValue(value)}
	for other, value := range v {
		more[other] = value
	}
	return more
}

var errNoAnswer = errors.New("it gives neither true nor false")

// holds evaluates the expression.
func (p *program) holds(v values) (bool, error) {
	result, _, err := p.program.Eval(map[string]any(v))
	if err != nil {
		return false, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "operation cancelled: "))
	}
	answer, ok := result.(types.Bool)
	if !ok {
		return false, errNoAnswer
	}
	return bool(answer), nil
}
