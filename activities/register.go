package activities

import (
	"context"

	"github.com/onejob/onejob"
)

// RegisterJob inserts the job of a request that came straight from Temporal, through the
// same code as every other door. It fails with InvalidRequest, BudgetExceeded,
// IdempotencyConflict and, if workflowID is not the job's, IdentityMismatch.
func (a *Activities) RegisterJob(ctx context.Context, in RegisterInput) (Registration, error) {
	job, err := onejob.NewJob(in.Request, a.Catalog)
	if err != nil {
		return a.answerRefused(ctx, in, err)
	}
	if job.WorkflowID != in.WorkflowID {
		return Registration{}, answerNow(onejob.Errorf(onejob.CodeIdentityMismatch,
			"workflow %q is not the one of owner %q and key %q: start it as %q", in.WorkflowID, job.Owner, job.Key, job.WorkflowID))
	}
	if in.JobID != "" {
		job.ID = in.JobID
	}
	registered, err := a.Store.InsertJobs(ctx, job)
	if err != nil {
		return Registration{}, answerNow(err)
	}
	first := registered[0]
	if !first.Created {
		a.Observer.DuplicateAnswered()
	}
	return Registration{Job: a.Catalog.Reference(&first.Job), Created: first.Created}, answerNow(first.Err)
}

// answerRefused answers a request that cannot be a new job; one that is a job already,
// from before the configuration changed, is answered as ever.
func (a *Activities) answerRefused(ctx context.Context, in RegisterInput, refusal error) (Registration, error) {
	job, err := a.Store.JobOf(ctx, in.Request)
	if err != nil || job.WorkflowID != in.WorkflowID {
		return Registration{}, answerNow(refusal)
	}
	a.Observer.DuplicateAnswered()
	return Registration{Job: a.Catalog.Reference(&job)}, nil
}

// RegisterInput is a request as it came, with the ID of the workflow it came to and the
// id that the job gets if it is new, the same for each try.
type RegisterInput struct {
	Request    onejob.Request `json:"request"`
	WorkflowID string         `json:"workflow_id"`
	JobID      string         `json:"job_id"`
}

// Registration is the job that the request's key has now.
type Registration struct {
	Job     onejob.Reference `json:"job"`
	Created bool             `json:"created"`
}
