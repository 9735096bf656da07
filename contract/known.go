package contract

import (
	"fmt"

	"github.com/onejob/onejob"
)

// Known returns what jobs have to know of the contract.
func (c *Contract) Known() *onejob.Contract {
	return &onejob.Contract{
		SHA256: c.SHA256, File: c.File, MaxTokens: c.Parameters.MaxTokens,
		PromptBytes: func(input []byte) (int, error) {
			p, err := c.Render(input, nil)
			return len(p.System) + len(p.User), err
		},
		CheckReply: func(input, reply []byte) error {
			if v := c.CheckReply(input, reply, ""); !v.Passed() {
				return v
			}
			return nil
		},
	}
}

// CheckKind returns an error unless the contract is of the kind of that name, whose attempts
// change something outside or do not.
func (c *Contract) CheckKind(name string, sideEffects bool) error {
	words := map[bool]string{true: "external", false: "none"}
	switch {
	case c.Kind != name:
		return fmt.Errorf("it is of kind %q, not %q: name the kind's own, or none", c.Kind, name)
	case c.SideEffects != sideEffects:
		return fmt.Errorf("it says side_effects: %s and the kind says %s: say the same in both", words[c.SideEffects], words[sideEffects])
	}
	return nil
}
