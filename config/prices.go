package config

import (
	"cmp"
	"os"

	"github.com/onejob/onejob"
)

// LoadPrices reads the file at path, which holds nothing but a list of prices in the form
// that they have in onejob.yaml. It returns an [onejob.ErrMisconfigured].
func LoadPrices(path string) ([]onejob.Price, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "cannot read the prices: %w", err)
	}
	return ParsePrices(path, text)
}

// ParsePrices reads the text of such a file. Name stands in front of every error.
func ParsePrices(name string, text []byte) ([]onejob.Price, error) {
	top, err := (&file{name: name}).document(text)
	if err != nil {
		return nil, err
	}
	top.Path = "prices"
	elements, err := readPrices(top)
	var prices []onejob.Price
	for _, p := range elements {
		prices = append(prices, p.Price)
	}
	return prices, err
}

// pricedElement is a price and where it stands.
type pricedElement struct {
	onejob.Price
	priced bool // it has a price, which may be zero
	at     element
}

// readPrices reads a list of prices that go together.
func readPrices(e element) (prices []pricedElement, err error) {
	err = e.list(func(item element) error {
		p, err := readPrice(item)
		err = cmp.Or(err, p.checkComplete(), p.checkBeside(prices))
		prices = append(prices, p)
		return err
	})
	return prices, err
}

func readPrice(e element) (pricedElement, error) {
	p := pricedElement{at: e}
	err := e.members(map[string]member{
		"provider":   set(&p.Provider, text),
		"model":      set(&p.Model, text),
		"unit":       set(&p.Unit, oneOf(onejob.PriceUnits()...)),
		"price":      func(e element) (err error) { p.priced = true; p.Price.Price, err = decimal(e); return err },
		"charge":     set(&p.Charge, optional(decimal)),
		"currency":   set(&p.Currency, currency),
		"valid_from": set(&p.ValidFrom, instant),
	})
	return p, err
}

// optional reads a value that may be left out.
func optional[T any](read func(element) (T, error)) func(element) (*T, error) {
	return func(e element) (*T, error) {
		value, err := read(e)
		return &value, err
	}
}

func (p pricedElement) checkComplete() error {
	for _, m := range []struct {
		name  string
		given bool
	}{{"provider", p.Provider != ""}, {"unit", p.Unit != ""}, {"price", p.priced}, {"currency", p.Currency != ""}} {
		if !m.given {
			return p.at.errorf("has no %s: add it", m.name)
		}
	}
	return nil
}

// checkBeside looks at what stands before p.
func (p pricedElement) checkBeside(before []pricedElement) error {
	for _, q := range before {
		switch {
		case q.Provider != p.Provider || q.Model != p.Model:
		case q.Currency != p.Currency:
			return p.at.errorf("is in %s, and %s of provider %s is in %s: one model has one currency", p.Currency, q.Unit, quoted(p.Provider), q.Currency)
		case q.Unit == p.Unit && q.ValidFrom.Equal(p.ValidFrom):
			return p.at.errorf("is a second price for unit %s of provider %s: remove one, or say from when each is valid (valid_from)", p.Unit, quoted(p.Provider))
		}
	}
	return nil
}

// takePrices checks the prices against the providers, wherever in the file they stand.
func (c *Config) takePrices(prices []pricedElement) error {
	for _, p := range prices {
		named, ok := c.provider(p.Provider)
		switch {
		case !ok:
			return p.at.errorf("names provider %s, which is not in the file: use one of %s", quoted(p.Provider), c.providerNames())
		case named.Model != p.Model:
			return p.at.errorf("is for model %s, and provider %s has model %s: make them the same", quoted(p.Model), quoted(p.Provider), quoted(named.Model))
		}
		c.Prices = append(c.Prices, p.Price)
	}
	return nil
}
