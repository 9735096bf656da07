package contract

import (
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// costs says what calls cost that the library takes for cheap, so that the limit counts
// them: our functions, and comparisons of whole lists and objects.
type costs struct{}

// CallCost returns nil for a call that the library knows better.
func (costs) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	const perTerm, perPart = 10, 2
	var cost uint64
	switch function {
	case "sum", "product", "round":
		cost = perTerm * (1 + parts(args[0], mostCost))
	case operators.Equals, operators.NotEquals, operators.In:
		if !isWhole(args) {
			return nil
		}
		for _, argument := range args {
			cost += perPart * parts(argument, mostCost)
		}
	default:
		return nil
	}
	return &cost
}

// isWhole says that one of the values is a list or an object.
func isWhole(args []ref.Val) bool {
	for _, argument := range args {
		switch argument.(type) {
		case traits.Lister, traits.Mapper:
			return true
		}
	}
	return false
}

// parts counts the values that a value consists of, at most about most.
func parts(value ref.Val, most uint64) (n uint64) {
	n = 1
	switch v := value.(type) {
	case traits.Mapper:
		for it := v.Iterator(); n < most && it.HasNext() == types.True; {
			n += parts(v.Get(it.Next()), most-n)
		}
	case traits.Lister:
		for it := v.Iterator(); n < most && it.HasNext() == types.True; {
			n += parts(it.Next(), most-n)
		}
	}
	return n
}
