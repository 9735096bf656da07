package onejob

import (
	"cmp"
	"regexp"
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
	case !IsDecimal(p.Price.String()):
		return invalid("price", p.Price.String(), decimalRemedy)
	case !IsDecimal(p.Charged().String()):
		return invalid("charge", p.Charged().String(), decimalRemedy)
	case !IsCurrency(p.Currency):
		return invalid("currency", p.Currency, "use a code of ISO 4217 like USD")
	case p.ValidFrom.Nanosecond()%1000 != 0:
		return invalid("valid_from", p.ValidFrom.Format(time.RFC3339Nano), "use whole microseconds")
	}
	return nil
}

const decimalRemedy = "use nothing below zero, and at most 12 digits before and 12 behind the point"

var (
	exactDecimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
)

// IsDecimal says that text is an amount as a price is written: no sign, no exponent, at
// most 12 digits before and 12 behind the point.
func IsDecimal(text string) bool { return exactDecimal.MatchString(text) }

// IsCurrency says that code has the form of ISO 4217, and is not XXX, its code for no
// currency.
func IsCurrency(code string) bool { return code != "XXX" && currencyCode.MatchString(code) }
