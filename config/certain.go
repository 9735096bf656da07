package config

import (
	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob/provider/verdict"
)

// readCertain reads which statuses and error codes of the provider are certain: to have
// had no effect, or to be a refusal that may be tried again.
func readCertain(e element, c *verdict.Certain) error {
	seen := map[string]bool{}
	return e.members(map[string]member{
		"no_effect": func(e element) error { return readAnswers(e, seen, &c.NoEffect, &c.NoEffectCodes) },
		"refused":   func(e element) error { return readAnswers(e, seen, &c.Refused, &c.RefusedCodes) },
	})
}

// readAnswers reads a list of statuses, which are numbers, and codes, which are texts.
func readAnswers(e element, seen map[string]bool, statuses *[]int, codes *[]string) error {
	return e.list(func(item element) error {
		value := item.resolved().Value
		if seen[value] {
			return item.errorf("declares %s a second time: name it once", shown(value))
		}
		seen[value] = true
		if item.resolved().Kind == yaml.ScalarNode && item.resolved().ShortTag() == "!!str" {
			code, err := errorCode(item)
			*codes = append(*codes, code)
			return err
		}
		n, err := status(item)
		*statuses = append(*statuses, n)
		return err
	})
}

// errorCode is a code of the provider's errors that may be declared certain.
func errorCode(e element) (string, error) {
	code, err := text(e)
	if err == nil && (verdict.Certain{NoEffectCodes: []string{code}}).Check() != nil {
		return "", e.errorf("is the code %s, a time-out: it cannot be certain, remove it", quoted(code))
	}
	return code, err
}
