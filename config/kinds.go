package config

import (
	"path/filepath"
	"time"

	"github.com/onejob/onejob/contract"
)

// The bounds of what suspends a certificate.
const (
	mostViolations  = 1_000_000
	longestCounting = 30 * 24 * time.Hour
)

// noContract is the word for a kind without a contract.
const noContract = "none"

func (c *Config) readKinds(e element) error {
	return e.entries(func(name string, value element) error {
		if err := value.checkName(name); err != nil {
			return err
		}
		kind, err := readKind(name, value)
		c.Kinds[name] = kind
		return err
	})
}

func readKind(name string, e element) (kind Kind, err error) {
	sideEffects, uncertified := "external", ""
	var contractOf, policy element
	if err := e.members(map[string]member{
		"side_effects": set(&sideEffects, oneOf("none", "external")),
		"contract":     keep(&contractOf),
		"uncertified": func(e element) (err error) {
			policy = e
			uncertified, err = oneOf("fail", "wait")(e)
			return err
		},
		"suspend": func(e element) error {
			policy = e
			return e.members(map[string]member{
				"violations": set(&kind.Suspend.Violations, whole(1, mostViolations)),
				"within":     set(&kind.Suspend.Within, duration(time.Second, longestCounting)),
			})
		},
	}); err != nil {
		return kind, err
	}
	kind.SideEffects, kind.Hold = sideEffects != "none", uncertified == "wait"
	if contractOf.file == nil {
		return kind, e.errorf("has no contract: name the file with contract: FILE, or say contract: %s", noContract)
	}
	if kind.Contract, err = loadContract(contractOf, name, kind.SideEffects); err == nil && kind.Contract == nil && policy.file != nil {
		err = policy.errorf("is about certificates, and the kind has no contract: leave it out, or name a contract")
	}
	return kind, err
}

// keep is a member that is read later.
func keep(target *element) member {
	return func(e element) error {
		*target = e
		return nil
	}
}

// loadContract returns the contract of a kind, nil for none. Its file is looked for beside
// the one that names it.
func loadContract(e element, kind string, sideEffects bool) (*contract.Contract, error) {
	path, err := text(e)
	if err != nil || path == noContract {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(e.file.name), path)
	}
	c, err := contract.Load(path)
	if err != nil {
		return nil, e.errorf("cannot be used: %w; see 'onejob contract lint %s'", err, path)
	}
	if err := c.CheckKind(kind, sideEffects); err != nil {
		return nil, e.errorf("%s cannot be used: %w", path, err)
	}
	return c, nil
}
