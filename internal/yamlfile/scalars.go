package yamlfile

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob"
)

// Text is a text of one line.
func (e Element) Text() (string, error) {
	node := e.Resolved()
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		return "", e.Errorf("is %s: write it as text, in quotes if it looks like something else", TypeName(node))
	}
	if node.Value == "" || strings.ContainsFunc(node.Value, unicode.IsControl) {
		return "", e.Errorf("is %s: give a text without control characters", Quoted(node.Value))
	}
	return node.Value, nil
}

// OneOf is a text out of the given ones.
func (e Element) OneOf(values ...string) (string, error) {
	s, err := e.Text()
	if err == nil && !slices.Contains(values, s) {
		return "", e.Errorf("is %s: use %s", Quoted(s), strings.Join(values, " or "))
	}
	return s, err
}

// Duration is a time in whole milliseconds from shortest to longest.
func (e Element) Duration(shortest, longest time.Duration) (time.Duration, error) {
	node := e.Resolved()
	d, err := time.ParseDuration(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil {
		return 0, e.Errorf("is %s and not a duration: write it like 10s or 1m30s", TypeName(node))
	}
	if d < shortest || d > longest || d%time.Millisecond != 0 {
		return 0, e.Errorf("is %v: use whole milliseconds from %v to %v", d, shortest, longest)
	}
	return d, nil
}

// Whole is a whole number from least to most.
func (e Element) Whole(least, most int) (n int, err error) {
	node := e.Resolved()
	if node.ShortTag() != "!!int" || node.Decode(&n) != nil || n < least || n > most {
		return 0, e.Errorf("is %s: use a whole number from %d to %d", TypeName(node), least, most)
	}
	return n, nil
}

// Decimal is an exact decimal, read from its digits.
func (e Element) Decimal() (onejob.Amount, error) {
	node := e.Resolved()
	if node.Kind != yaml.ScalarNode || !onejob.IsDecimal(node.Value) {
		return onejob.Amount{}, e.Errorf("is %s: write an exact decimal like 0.000002, %s", TypeName(node), onejob.AmountRemedy)
	}
	return onejob.ParseAmount(node.Value)
}

// Currency is a code of ISO 4217.
func (e Element) Currency() (string, error) {
	s, err := e.Text()
	if err == nil && onejob.CheckCurrency(s) != nil {
		return "", e.Errorf("is %s: %s", Quoted(s), onejob.CurrencyRemedy)
	}
	return s, err
}

// Flag is true or false.
func (e Element) Flag() (on bool, err error) {
	node := e.Resolved()
	if node.ShortTag() != "!!bool" || node.Decode(&on) != nil {
		return false, e.Errorf("is %s: use true or false", TypeName(node))
	}
	return on, nil
}
