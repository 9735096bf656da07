package contract

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// celValue is a decoded JSON value as expressions see it: numbers are doubles, those
// with more digits than a double keeps are [inexact].
func celValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			object[name] = celValue(member)
		}
		return object
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = celValue(item)
		}
		return list
	case json.Number:
		return numberOf(string(v))
	}
	return value
}

// keptDigits is how many decimal digits every double keeps.
const keptDigits = 15

func numberOf(spelling string) any {
	f, err := strconv.ParseFloat(spelling, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(spelling), "e")
	digits := strings.Trim(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	if err != nil || len(digits) > keptDigits || f == 0 && digits != "" {
		return inexact(spelling)
	}
	return f
}

// inexact is a number that a double would change. An expression that looks at it fails
// instead of comparing something else.
type inexact string

var inexactType = cel.ObjectType("number_of_many_digits")

func (n inexact) fail() ref.Val {
	return types.NewErr("the number %s has more than %d digits: compare it by a fact, or make it a text", string(n), keptDigits)
}

func (n inexact) ConvertToNative(reflect.Type) (any, error) { return string(n), nil }
func (n inexact) ConvertToType(ref.Type) ref.Val            { return n.fail() }
func (n inexact) Equal(ref.Val) ref.Val                     { return n.fail() }
func (n inexact) Type() ref.Type                            { return inexactType }
func (n inexact) Value() any                                { return string(n) }

// mostTerms bounds a list that is summed or multiplied up.
const mostTerms = 10_000

// decimalFunctions compute with the decimals that people wrote, not with the binary
// numbers beside them: sum([0.1, 0.2]) == 0.3. Their results compare with whole numbers too.
func decimalFunctions() []cel.EnvOption {
	list, number := cel.ListType(cel.DynType), cel.DynType
	return []cel.EnvOption{
		cel.Function("sum", cel.Overload("sum_list", []*cel.Type{list}, number,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return fold(v, new(big.Rat), (*big.Rat).Add) }))),
		cel.Function("product", cel.Overload("product_list", []*cel.Type{list}, number,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return fold(v, big.NewRat(1, 1), (*big.Rat).Mul) }))),
		cel.Function("round", cel.Overload("round_number_int", []*cel.Type{cel.DynType, cel.IntType}, number, cel.BinaryBinding(round))),
	}
}

func fold(value ref.Val, total *big.Rat, step func(z, x, y *big.Rat) *big.Rat) ref.Val {
	list, ok := value.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(value)
	}
	size, ok := list.Size().(types.Int)
	if !ok || size > mostTerms {
		return types.NewErr("a list of more than %d numbers cannot be added up", mostTerms)
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		term, failure := exactly(it.Next())
		if failure != nil {
			return failure
		}
		if step(total, total, term); total.Num().BitLen() > mostBits || total.Denom().BitLen() > mostBits {
			return types.NewErr("the result has too many digits")
		}
	}
	nearest, _ := total.Float64()
	return types.Double(nearest)
}

// mostBits bounds what is computed with on the way.
const mostBits = 1 << 14

// exactly is the decimal that a number is written as.
func exactly(value ref.Val) (*big.Rat, ref.Val) {
	switch n := value.(type) {
	case types.Double:
		if r, ok := new(big.Rat).SetString(strconv.FormatFloat(float64(n), 'g', -1, 64)); ok {
			return r, nil
		}
	case types.Int:
		return new(big.Rat).SetInt64(int64(n)), nil
	case inexact:
		return nil, n.fail()
	case *types.Err:
		return nil, n
	}
	return nil, types.NewErr("%v is no number", value.Type().TypeName())
}

// mostPlaces is how many places a number is rounded to at most.
const mostPlaces = 12

// round is commercial: a half goes away from zero.
func round(value, places ref.Val) ref.Val {
	exact, failure := exactly(value)
	if failure != nil {
		return failure
	}
	n, ok := places.(types.Int)
	if !ok || n < 0 || n > mostPlaces {
		return types.NewErr("a number is rounded to 0 to %d places", mostPlaces)
	}
	nearest, err := strconv.ParseFloat(exact.FloatString(int(n)), 64)
	if err != nil {
		return types.NewErr("%v", err)
	}
	return types.Double(nearest)
}
