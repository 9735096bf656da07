package anthropic

import "github.com/onejob/onejob/provider"

var _ provider.Destined = (*Adapter)(nil)

// Destination implements [provider.Destined].
func (a *Adapter) Destination() string { return a.line.Destination }
