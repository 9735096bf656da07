package activities

import (
	"context"

	"github.com/onejob/onejob"
)

// Decide records the decision if the job's rows allow it. It fails with NothingToResolve,
// AttemptUnresolved, JobClosed, NotCertified, InvalidRequest and NotFound.
func (a *Activities) Decide(ctx context.Context, d onejob.Decision) (onejob.Progress, error) {
	if err := d.Check(a.Catalog); err != nil {
		return onejob.Progress{}, answerNow(err)
	}
	p, err := a.Store.Decide(ctx, d, a.Catalog)
	return p, answerNow(err)
}
