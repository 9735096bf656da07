package httpjson

import (
	"encoding/json"

	"github.com/onejob/onejob/provider"
)

var _ provider.Prompter = (*Adapter)(nil)

// Version is raised when [Adapter.Prompted] or [Adapter.Reply] changes.
const Version = "http/1"

// Prompted implements [provider.Prompter]: the provider has its own prompt and takes the
// input as it is.
func (a *Adapter) Prompted(p provider.Prompt) (json.RawMessage, error) { return p.Input, nil }

// Reply implements [provider.Prompter]: the reply is the whole result, a member usage
// among it.
func (a *Adapter) Reply(result json.RawMessage) (provider.Reply, error) {
	return provider.Reply{Text: result}, nil
}

// Version implements [provider.Prompter].
func (a *Adapter) Version() string { return Version }
