package activities

import (
	"context"

	"github.com/onejob/onejob/postgres"
)

// CertifiedInput are the providers that a job of a kind waits for.
type CertifiedInput struct {
	Kind      string   `json:"kind"`
	Providers []string `json:"providers"`
}

// Certified returns the first of the providers that has a valid certificate for the contract
// of the kind, or that needs none since the kind has no contract any more; "" if there is
// none.
func (a *Activities) Certified(ctx context.Context, in CertifiedInput) (string, error) {
	c, ok := a.Contracts[in.Kind]
	if !ok {
		return in.Providers[0], nil
	}
	var candidates []postgres.Proved
	for _, name := range in.Providers {
		p, _ := a.Providers.Get(name)
		candidates = append(candidates, postgres.Proved{ContractSHA256: c.SHA256, Provider: name, Model: p.Model, Adapter: p.AdapterVersion()})
	}
	certified, _, err := a.Store.FirstCertified(ctx, candidates)
	return certified.Provider, TemporalError(err)
}
