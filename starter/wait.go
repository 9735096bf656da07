package starter

import (
	"context"
	"time"
)

// Wait returns the job once it is closed, or ctx's error. It waits on Temporal, which
// tells at once, and reads Postgres, which is right: a workflow that is gone or a
// Temporal that is down only makes it slower.
func (s *Starter) Wait(ctx context.Context, jobID string) (Detail, error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		job, err := s.store.Job(ctx, jobID)
		if err != nil {
			return Detail{}, err
		}
		if job.Status.Closed() {
			return s.Get(ctx, jobID)
		}
		if s.untilRunEnds(ctx, job.WorkflowID) {
			continue
		}
		select {
		case <-ctx.Done():
			return Detail{}, ctx.Err()
		case <-time.After(pause):
		}
	}
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	longestTrust = 10 * time.Second // in Temporal telling, before the row is read again
)

// untilRunEnds waits for the run's end. It returns false if Temporal did not tell of one.
func (s *Starter) untilRunEnds(ctx context.Context, workflowID string) bool {
	ctx, cancel := context.WithTimeout(ctx, longestTrust)
	defer cancel()
	return s.runs.Client.GetWorkflow(ctx, workflowID, "").Get(ctx, nil) == nil
}
