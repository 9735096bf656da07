package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// Ends are the codes of the ends, such as stop or end_turn, that make a whole answer a
// result.
type Ends []string

// Judge judges a whole answer of a model by its ends. One that is not accepted breaks
// the contract, however good the rest looks: the detail begins with its code.
func (e Ends) Judge(body []byte, ends ...string) provider.Answer {
	for _, end := range ends {
		if !slices.Contains(e, end) {
			answer := failed(onejob.ReasonContractViolation)
			answer.Detail = fmt.Sprintf("%s: the answer ended in another way than %s", end, strings.Join(e, ", "))
			return answer
		}
	}
	return provider.Answer{Certainty: provider.Succeeded, Result: body}
}

// Or returns e, or the other ends if e has none.
func (e Ends) Or(other Ends) Ends {
	if len(e) == 0 {
		return other
	}
	return e
}
