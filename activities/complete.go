package activities

import (
	"context"

	"github.com/onejob/onejob"
)

// CompleteJob lets the attempt's result win, or discards it. It may be repeated.
func (a *Activities) CompleteJob(ctx context.Context, jobID string, attempt int) (onejob.Progress, error) {
	c, err := a.Store.CompleteJobIfOpen(ctx, jobID, attempt)
	if err == nil && c.Raced {
		loser, _ := c.Progress.Attempt(attempt)
		a.Observer.RaceLost(loser.Provider)
		a.Logger.Warn("result discarded: the slot was taken or the job closed", "job_id", jobID, "attempt", attempt,
			"winner", c.Progress.CompletedBy, "status", c.Progress.Status)
	}
	return c.Progress, TemporalError(err)
}

// FailJob closes the job as failed if nothing happened since version. It may be repeated.
func (a *Activities) FailJob(ctx context.Context, jobID string, version int) (onejob.Progress, error) {
	p, err := a.Store.FailJobIfNothingLives(ctx, jobID, version)
	return p, TemporalError(err)
}
