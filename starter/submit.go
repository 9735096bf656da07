package starter

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

const (
	insertTries   = 4               // of a transaction whose acknowledgement may have been lost
	startPatience = 5 * time.Second // for Temporal, after which the reconciler starts the workflow
	chunkJobs     = 64              // inserted in one round trip
	chunkBytes    = 4 << 20         // of inputs in one round trip
)

// Submit makes the request a job, or finds the one that it is already. The row is
// committed before the workflow starts. With Temporal down the job is accepted all the
// same, Launched is false, and a worker's reconciler starts it later; an error of
// Temporal that waiting will not mend is returned beside the accepted job.
//
// It fails with [onejob.ErrInvalidRequest], with [onejob.ErrBudgetExceeded], of which nothing
// is stored either, and with [onejob.ErrConflict]; with [onejob.ErrServerUnreachable] when
// Postgres does not answer: submit again, with the same key.
func (s *Starter) Submit(ctx context.Context, r onejob.Request) (onejob.Submitted, error) {
	job, err := onejob.NewJob(r, s.catalog)
	if err != nil {
		return s.answerRefused(ctx, r, err)
	}
	registered, err := s.insert(ctx, job)
	if err != nil {
		return onejob.Submitted{}, err
	}
	return s.launch(ctx, registered[0])
}

// answerRefused answers a request that cannot be a new job. One that is a job already,
// from before the configuration changed, is answered as ever.
func (s *Starter) answerRefused(ctx context.Context, r onejob.Request, refusal error) (onejob.Submitted, error) {
	job, err := s.store.JobOf(ctx, r)
	if err != nil {
		return onejob.Submitted{}, refusal
	}
	return s.launch(ctx, postgres.Registered{Job: job})
}

// insert inserts the jobs, again if it is not known whether it did: their ids tell.
func (s *Starter) insert(ctx context.Context, jobs ...onejob.Job) (registered []postgres.Registered, err error) {
	for try := range insertTries {
		if registered, err = s.store.InsertJobs(ctx, jobs...); !errors.Is(err, onejob.ErrServerUnreachable) {
			return registered, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond << try):
		}
	}
	return nil, err
}

// launch starts the workflow of a job that has none yet.
func (s *Starter) launch(ctx context.Context, r postgres.Registered) (onejob.Submitted, error) {
	submitted := answerFor(r)
	if r.Err != nil || submitted.Launched {
		return submitted, r.Err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	_, err := s.runs.Start(ctx, s.catalog.Reference(&r.Job))
	submitted.Launched = err == nil
	if err == nil {
		return submitted, nil
	}
	if errors.Is(err, onejob.ErrMisconfigured) {
		return submitted, err
	}
	s.logger.Warn("accepted; the workflow starts when temporal answers", "job_id", r.Job.ID, "error", err)
	return submitted, nil
}

// SubmitAll submits the requests, many in one round trip, and yields for each, in their
// order, what Submit would return. It stops when the caller stops, or with the error of
// a ctx that ended.
func (s *Starter) SubmitAll(ctx context.Context, requests iter.Seq[onejob.Request]) iter.Seq2[onejob.Submitted, error] {
	return func(yield func(onejob.Submitted, error) bool) {
		launch := s.launch
		for chunk := range chunks(requests) {
			for _, answer := range s.submitChunk(ctx, chunk, launch) {
				if answer.err == nil && !answer.submitted.Launched {
					launch = s.leaveToReconciler // one wait for Temporal is enough
				}
				if !yield(answer.submitted, answer.err) {
					return
				}
			}
			if ctx.Err() != nil {
				yield(onejob.Submitted{}, ctx.Err())
				return
			}
		}
	}
}

// launcher answers for a registered job, and starts its workflow if it has none.
type launcher func(context.Context, postgres.Registered) (onejob.Submitted, error)

// leaveToReconciler answers without asking Temporal.
func (s *Starter) leaveToReconciler(_ context.Context, r postgres.Registered) (onejob.Submitted, error) {
	return answerFor(r), r.Err
}

func answerFor(r postgres.Registered) onejob.Submitted {
	return onejob.Submitted{
		JobID: r.Job.ID, WorkflowID: r.Job.WorkflowID, Status: r.Job.Status, Created: r.Created,
		Launched: r.Job.ID != "" && r.Job.Status != onejob.StatusAccepted,
	}
}

type answer struct {
	submitted onejob.Submitted
	err       error
}

// submitChunk submits the requests together. Those that are no jobs do not stop the rest.
func (s *Starter) submitChunk(ctx context.Context, requests []onejob.Request, launch launcher) []answer {
	answers := make([]answer, len(requests))
	var jobs []onejob.Job
	var places []int // of the jobs among the answers
	for i, r := range requests {
		job, err := onejob.NewJob(r, s.catalog)
		if err != nil {
			answers[i].submitted, answers[i].err = s.answerRefused(ctx, r, err)
			continue
		}
		jobs, places = append(jobs, job), append(places, i)
	}
	registered, err := s.insert(ctx, jobs...)
	var launching sync.WaitGroup
	for k, i := range places {
		if err != nil {
			answers[i].err = err
			continue
		}
		launching.Go(func() {
			answers[i].submitted, answers[i].err = launch(ctx, registered[k])
		})
	}
	launching.Wait()
	return answers
}

// chunks groups the requests into what is submitted together.
func chunks(requests iter.Seq[onejob.Request]) iter.Seq[[]onejob.Request] {
	return func(yield func([]onejob.Request) bool) {
		var chunk []onejob.Request
		size := 0
		for r := range requests {
			chunk = append(chunk, r)
			size += len(r.Input)
			if len(chunk) == chunkJobs || size >= chunkBytes {
				if !yield(chunk) {
					return
				}
				chunk, size = nil, 0
			}
		}
		if len(chunk) > 0 {
			yield(chunk)
		}
	}
}
