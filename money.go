package onejob

import (
	"database/sql/driver"
	"fmt"
	"regexp"
	"strings"

	"github.com/shopspring/decimal"
)

// Amount is an exact decimal amount of money, or a price of one unit. It is never rounded
// but for display. Its zero value is zero. It travels as a string of decimal digits, in
// JSON too, and reads and writes Postgres's numeric.
type Amount struct{ exact decimal.Decimal }

// decimalDigits is what an amount is written like: no exponent, so that a short text
// cannot stand for a number that fills the memory.
var decimalDigits = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,100})?$`)

// ParseAmount reads decimal digits, like 12 or -0.000000000001: at most 15 before the
// point and 100 after it. Anything else is an [ErrInvalidRequest].
func ParseAmount(text string) (Amount, error) {
	if !decimalDigits.MatchString(text) {
		return Amount{}, Errorf(CodeInvalidRequest, "%s is not an amount: write decimal digits, like 12.50", abbreviated(text))
	}
	exact, err := decimal.NewFromString(text)
	if err != nil {
		return Amount{}, Errorf(CodeInvalidRequest, "%s is not an amount: %w", abbreviated(text), err)
	}
	return Amount{exact}, nil
}

// What amounts and currencies look like that somebody gives, as errors say it.
const (
	AmountRemedy   = "use nothing below zero, and at most 12 digits before and 12 behind the point"
	CurrencyRemedy = "use a code of ISO 4217 like USD"
)

// NoCurrency is ISO 4217's code for it: of a call that nobody put a price on. Nothing is priced
// or budgeted in it.
const NoCurrency = "XXX"

var (
	exactDecimal = regexp.MustCompile(`^[0-9]{1,12}(\.[0-9]{1,12})?$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
)

// IsDecimal says that text is an amount as a price is written: no sign, no exponent, at
// most 12 digits before and 12 behind the point.
func IsDecimal(text string) bool { return exactDecimal.MatchString(text) }

// Check returns an [ErrInvalidRequest] unless a can be a price, a limit or what is moved: by
// the rule of [IsDecimal].
func (a Amount) Check() error {
	if !IsDecimal(a.String()) {
		return Errorf(CodeInvalidRequest, "amount %.60s cannot be one: %s", a, AmountRemedy)
	}
	return nil
}

// CheckCurrency returns an [ErrInvalidRequest] unless code has the form of ISO 4217, and is
// not [NoCurrency].
func CheckCurrency(code string) error {
	if code == NoCurrency || !currencyCode.MatchString(code) {
		return Errorf(CodeInvalidRequest, "currency %.20q is none: %s", code, CurrencyRemedy)
	}
	return nil
}

// storedDigits is what Postgres says of an amount: a sum may be longer than what is read.
var storedDigits = regexp.MustCompile(`^-?[0-9]{1,100}(\.[0-9]{1,100})?$`)

func parseStored(text string) (Amount, error) {
	if !storedDigits.MatchString(text) {
		return Amount{}, fmt.Errorf("%s is not an amount", abbreviated(text))
	}
	exact, err := decimal.NewFromString(text)
	return Amount{exact}, err
}

// Add returns a + b.
func (a Amount) Add(b Amount) Amount { return Amount{a.exact.Add(b.exact)} }

// Neg returns -a.
func (a Amount) Neg() Amount { return Amount{a.exact.Neg()} }

// Cmp returns -1, 0 or 1 as a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int { return a.exact.Cmp(b.exact) }

// Sign returns -1, 0 or 1 as a is negative, zero or positive.
func (a Amount) Sign() int { return a.exact.Sign() }

// String returns all digits that a has, without zeros at the end.
func (a Amount) String() string { return a.exact.String() }

// Display returns a for people: rounded to the currency's minor unit, half away from zero,
// so 0.005 USD is 0.01 USD and -0.005 USD is -0.01 USD. It is the only place that rounds;
// nothing is computed from what it returns.
func (a Amount) Display(currency string) string {
	digits := a.exact.StringFixed(minorDigits(currency))
	if strings.Trim(digits, "-0.") == "" {
		digits = strings.TrimPrefix(digits, "-")
	}
	return digits + " " + currency
}

// minorDigits is how many digits the currency's minor unit has, by ISO 4217.
func minorDigits(currency string) int32 {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3
	case "CLF", "UYW":
		return 4
	}
	return 2
}

// MarshalText implements [encoding.TextMarshaler].
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler], as [ParseAmount] reads.
func (a *Amount) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAmount(string(text))
	return err
}

// Value implements [driver.Valuer].
func (a Amount) Value() (driver.Value, error) { return a.String(), nil }

// Scan implements [database/sql.Scanner]. Null is no amount: scan it into a pointer.
func (a *Amount) Scan(stored any) (err error) {
	switch stored := stored.(type) {
	case string:
		*a, err = parseStored(stored)
	case []byte:
		*a, err = parseStored(string(stored))
	default:
		err = fmt.Errorf("a %T is no amount", stored)
	}
	return err
}
