package onejob

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Price is what one unit of a model's work costs us and what the owner of the job pays
// for it, from a time on.
type Price struct {
	Provider  string
	Model     string    // empty: the provider has none
	Unit      string    // one of [PriceUnits]
	Price     Amount    // at most 12 digits before and behind the point
	Charge    *Amount   // as Price; nil: the same
	Currency  string    // ISO 4217; one for all units of a model
	ValidFrom time.Time // in whole microseconds; zero: from when it is first stored
}

// PriceUnits lists what has a price: tokens of four kinds, images, seconds and calls.
func PriceUnits() []string {
	return []string{"input", "cached_input", "output", "reasoning", "image", "second", "call"}
}

// Charged returns what the owner pays for a unit.
func (p Price) Charged() Amount { return *cmp.Or(p.Charge, &p.Price) }

// Check returns an [ErrMisconfigured] if p cannot be a price.
func (p Price) Check() error {
	invalid := func(what, value, remedy string) error {
		return Errorf(CodeMisconfigured, "the price of provider %s has %s %s: %s", abbreviated(p.Provider), what, abbreviated(value), remedy)
	}
	switch {
	case strings.TrimFunc(p.Provider, isBlank) == "":
		return Errorf(CodeMisconfigured, "a price has no provider: name one")
	case !slices.Contains(PriceUnits(), p.Unit):
		return invalid("unit", p.Unit, "use one of "+strings.Join(PriceUnits(), ", "))
	case p.Price.Check() != nil:
		return invalid("price", p.Price.String(), AmountRemedy)
	case p.Charged().Check() != nil:
		return invalid("charge", p.Charged().String(), AmountRemedy)
	case CheckCurrency(p.Currency) != nil:
		return invalid("currency", p.Currency, CurrencyRemedy)
	case p.ValidFrom.Nanosecond()%1000 != 0:
		return invalid("valid_from", p.ValidFrom.Format(time.RFC3339Nano), "use whole microseconds")
	}
	return nil
}
