package activities

import (
	"context"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// AdoptAttempts returns how far the job is, after fencing the attempt that did not come
// back and marking unknown what nobody listens to; see [postgres.Store.AdoptAttempts].
func (a *Activities) AdoptAttempts(ctx context.Context, q postgres.Adoption) (onejob.Progress, error) {
	if q.Fence != nil {
		p, _ := a.Providers.Get(q.Fence.Provider)
		q.Fence.Model = p.Model
	}
	p, err := a.Store.AdoptAttempts(ctx, q)
	return p, TemporalError(err)
}
