package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Decision says who decided something about a job, and why.
type Decision struct {
	By     string
	Reason string
	Token  string // the same for the same decision told twice
}

// Decide records a checked decision, by one of the methods below, if the job's rows allow
// it, and returns how far the job is then.
func (s *Store) Decide(ctx context.Context, d onejob.Decision) (onejob.Progress, error) {
	who := Decision{By: d.By, Reason: d.Reason, Token: d.Token}
	switch d.Action {
	case onejob.DecideStartAttempt:
		return s.RequestAttemptIfNoneLives(ctx, d.JobID, d.Provider, who)
	case onejob.DecideCancelAttempt:
		return s.CancelAttemptIfLive(ctx, d.JobID, d.Attempt, who)
	case onejob.DecideResolveAttempt:
		return s.ResolveAttemptIfLive(ctx, d.JobID, d.Attempt, d.As, d.Result, who)
	case onejob.DecideCancelJob:
		return s.CancelJobIfOpen(ctx, d.JobID, who)
	}
	return onejob.Progress{}, onejob.Errorf(onejob.CodeInternal, "nobody can decide %q", d.Action)
}

// decide runs apply under the job's lock unless the decision's token is there already,
// and returns how far the job is then.
func (s *Store) decide(ctx context.Context, jobID string, d Decision, apply func(pgx.Tx, lockedJob) error) (p onejob.Progress, err error) {
	err = s.inTx(ctx, "record the decision", func(tx pgx.Tx) error {
		job, err := lockJob(ctx, tx, jobID)
		if err != nil {
			return err
		}
		var repeated bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM decisions WHERE token = $1)`, d.Token).Scan(&repeated); err != nil {
			return err
		}
		if !repeated {
			if err := apply(tx, job); err != nil {
				return err
			}
		}
		p, err = readProgress(ctx, tx, jobID)
		return err
	})
	return p, err
}

func logDecision(ctx context.Context, tx pgx.Tx, jobID string, action onejob.DecisionAction, attempt int, outcome onejob.AttemptState, provider string, d Decision) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO decisions (job_id, attempt, action, outcome, provider, decided_by, reason, token)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		jobID, nullable(attempt), action, nullable(outcome), nullable(provider), d.By, d.Reason, d.Token)
	return err
}

// RequestAttemptIfNoneLives asks for a new attempt on the provider, and reopens the job if
// it had failed. It fails with [onejob.ErrAttemptUnresolved] and [onejob.ErrJobClosed].
func (s *Store) RequestAttemptIfNoneLives(ctx context.Context, jobID, provider string, d Decision) (onejob.Progress, error) {
	return s.decide(ctx, jobID, d, func(tx pgx.Tx, job lockedJob) error {
		if job.Status == onejob.StatusSucceeded || job.Status == onejob.StatusCancelled {
			return onejob.Errorf(onejob.CodeJobClosed, "job %s is %s: submit a new intention under a new key", jobID, job.Status)
		}
		if err := refuseWhileUnresolved(ctx, tx, jobID, job); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE jobs SET requested_provider = $2, status = 'running', version = version + (status = 'failed')::integer,
				error = NULL, finished_at = NULL
			WHERE id = $1 AND status IN ('running', 'failed')`, jobID, provider); err != nil {
			return err
		}
		return logDecision(ctx, tx, jobID, onejob.DecideStartAttempt, 0, "", provider, d)
	})
}

func refuseWhileUnresolved(ctx context.Context, tx pgx.Tx, jobID string, job lockedJob) error {
	a, err := unresolvedAttempt(ctx, tx, jobID, 0)
	switch {
	case err == nil:
		return onejob.UnresolvedError(jobID, a.Attempt)
	case !errors.Is(err, onejob.ErrNothingToResolve):
		return err
	case job.Status == onejob.StatusAccepted:
		return onejob.Errorf(onejob.CodeAttemptUnresolved, "job %s has not started its first attempt yet: wait for it", jobID)
	case job.Requested != nil:
		return onejob.Errorf(onejob.CodeAttemptUnresolved, "job %s was asked for an attempt on %s already: wait for it", jobID, *job.Requested)
	}
	return nil
}

// unresolvedAttempt returns the attempt of that number, or for 0 the first one, that is
// under way, unknown or undecided. It fails with [onejob.ErrNothingToResolve] and, for
// a number that does not exist, [onejob.ErrNotFound].
func unresolvedAttempt(ctx context.Context, tx pgx.Tx, jobID string, number int) (attemptRow, error) {
	if number != 0 {
		a, err := readAttempt(ctx, tx, jobID, number)
		if err == nil && !a.Unresolved() {
			err = onejob.Errorf(onejob.CodeNothingToResolve, "attempt %d of job %s is %s: there is nothing to cancel or resolve", number, jobID, a.State)
		}
		return a, err
	}
	attempts, err := readAttempts(ctx, tx, jobID)
	for _, a := range attempts {
		if a.Unresolved() {
			return a, nil
		}
	}
	if err == nil {
		err = onejob.Errorf(onejob.CodeNothingToResolve, "job %s has no unresolved attempt: there is nothing to cancel or resolve", jobID)
	}
	return attemptRow{}, err
}

// CancelAttemptIfLive gives up the attempt, or for number 0 the unresolved one. It fails
// with [onejob.ErrNothingToResolve] and [onejob.ErrNotFound].
func (s *Store) CancelAttemptIfLive(ctx context.Context, jobID string, number int, d Decision) (onejob.Progress, error) {
	cancelled := Outcome{State: onejob.AttemptCancelled, Reason: onejob.ReasonCancelled, Detail: d.Reason, RecordedBy: d.Token}
	return s.resolve(ctx, jobID, number, onejob.DecideCancelAttempt, cancelled, d)
}

// ResolveAttemptIfLive gives the attempt, or for number 0 the unresolved one, the
// outcome that somebody found out: failed, or succeeded with the result, which then has
// to win like any other. It fails as [Store.CancelAttemptIfLive] does.
func (s *Store) ResolveAttemptIfLive(ctx context.Context, jobID string, number int, as onejob.AttemptState, result json.RawMessage, d Decision) (onejob.Progress, error) {
	resolved := Outcome{State: as, Reason: onejob.ReasonResolved, Detail: d.Reason, Result: result, RecordedBy: d.Token}
	return s.resolve(ctx, jobID, number, onejob.DecideResolveAttempt, resolved, d)
}

func (s *Store) resolve(ctx context.Context, jobID string, number int, action onejob.DecisionAction, o Outcome, d Decision) (onejob.Progress, error) {
	return s.decide(ctx, jobID, d, func(tx pgx.Tx, job lockedJob) error {
		a, err := unresolvedAttempt(ctx, tx, jobID, number)
		if err != nil {
			return err
		}
		if a.State.Final() {
			return onejob.Errorf(onejob.CodeNothingToResolve, "attempt %d of job %s has its answer already: it is being decided on", a.Number, jobID)
		}
		if err := writeOutcome(ctx, tx, a, job, o); err != nil {
			return err
		}
		outcome := o.State
		if outcome == onejob.AttemptCancelled {
			outcome = ""
		}
		return logDecision(ctx, tx, jobID, action, a.Number, outcome, a.Provider, d)
	})
}

// CancelJobIfOpen closes the job as cancelled: its live attempts are given up, an answer
// that was not decided on yet is discarded. It fails with [onejob.ErrJobClosed].
func (s *Store) CancelJobIfOpen(ctx context.Context, jobID string, d Decision) (onejob.Progress, error) {
	return s.decide(ctx, jobID, d, func(tx pgx.Tx, job lockedJob) error {
		if job.Status.Closed() {
			return onejob.Errorf(onejob.CodeJobClosed, "job %s is %s: there is nothing to cancel", jobID, job.Status)
		}
		attempts, err := readAttempts(ctx, tx, jobID)
		if err != nil {
			return err
		}
		for _, a := range attempts {
			if err := giveUp(ctx, tx, a, job, d); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, `
			UPDATE jobs SET status = 'cancelled', version = version + 1, requested_provider = NULL, finished_at = clock_timestamp()
			WHERE id = $1`, jobID); err != nil {
			return err
		}
		return logDecision(ctx, tx, jobID, onejob.DecideCancelJob, 0, "", "", d)
	})
}

// giveUp ends an attempt whose job is being cancelled.
func giveUp(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, d Decision) error {
	switch {
	case !a.State.Final():
		return writeOutcome(ctx, tx, a, job, Outcome{State: onejob.AttemptCancelled, Reason: onejob.ReasonCancelled, Detail: d.Reason, RecordedBy: d.Token})
	case a.Unresolved():
		return discardUndecided(ctx, tx, a, job)
	}
	return nil
}
