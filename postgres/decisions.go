package postgres

import (
	"cmp"
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

	Uncertified bool           // of an attempt that is asked for: without a certificate too
	Catalog     onejob.Catalog // by whose contracts a provider needs a certificate and a result is checked; zero: none

	provider string // of the attempt asked for
	attempt  int    // that it is about; 0: the unresolved one
}

// Decide records a checked decision, by one of the methods below, if the job's rows and the
// contracts of the catalog allow it, and returns how far the job is then.
func (s *Store) Decide(ctx context.Context, d onejob.Decision, c onejob.Catalog) (onejob.Progress, error) {
	who := Decision{By: d.By, Reason: d.Reason, Token: d.Token, Uncertified: d.Uncertified, Catalog: c}
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
// and returns how far the job is then. A refusal is kept as well: told again, after the
// workflow was reset for instance, the decision is refused again, whatever has become
// possible since.
func (s *Store) decide(ctx context.Context, jobID string, action onejob.DecisionAction, d Decision, apply func(pgx.Tx, lockedJob) error) (p onejob.Progress, err error) {
	var refusal error
	err = s.inTx(ctx, "record the decision", func(tx pgx.Tx) error {
		job, err := lockJob(ctx, tx, jobID)
		if err != nil {
			return err
		}
		var repeated bool
		if repeated, refusal, err = decidedBefore(ctx, tx, jobID, action, d); err != nil {
			return err
		}
		if !repeated {
			if refusal = apply(tx, job); refusal != nil {
				return logRefusal(ctx, tx, jobID, action, d, refusal)
			}
		}
		p, err = readProgress(ctx, tx, jobID)
		return err
	})
	return p, cmp.Or(err, refusal)
}

// decidedBefore says whether the decision is there already, and how it was refused then. A token
// that another decision has is an [onejob.ErrConflict].
func decidedBefore(ctx context.Context, tx pgx.Tx, jobID string, action onejob.DecisionAction, d Decision) (repeated bool, refusal error, err error) {
	var code *onejob.Code
	var why *string
	var same bool
	err = tx.QueryRow(ctx, `
		SELECT refused, refusal, job_id = $2 AND action = $3 AND ($4 = '' OR provider IS NULL OR provider = $4) AND ($5 = 0 OR attempt IS NULL OR attempt = $5)
		FROM decisions WHERE token = $1`, d.Token, jobID, action, d.provider, d.attempt).Scan(&code, &why, &same)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil, nil
	}
	if err == nil && !same {
		return false, nil, onejob.Errorf(onejob.CodeConflict, "the token belongs to another decision: use a new key for a new decision")
	}
	if code != nil {
		refusal = onejob.Errorf(*code, "%s", orZero(why))
	}
	return err == nil, refusal, err
}

// logRefusal keeps what the rows refused, and returns every other error as it is.
func logRefusal(ctx context.Context, tx pgx.Tx, jobID string, action onejob.DecisionAction, d Decision, refusal error) error {
	switch code := onejob.CodeOf(refusal); code {
	case onejob.CodeAttemptUnresolved, onejob.CodeNothingToResolve, onejob.CodeJobClosed, onejob.CodeNotFound,
		onejob.CodeBudgetExceeded, onejob.CodeInvalidRequest, onejob.CodeNotCertified:
		_, err := tx.Exec(ctx, `
			INSERT INTO decisions (job_id, action, provider, decided_by, reason, token, refused, refusal) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			jobID, action, nullable(d.provider), d.By, d.Reason, d.Token, code, refusal.Error())
		return err
	}
	return refusal
}

func logDecision(ctx context.Context, tx pgx.Tx, jobID string, action onejob.DecisionAction, attempt int, outcome onejob.AttemptState, provider string, d Decision) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO decisions (job_id, attempt, action, outcome, provider, decided_by, reason, token, uncertified)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		jobID, nullable(attempt), action, nullable(outcome), nullable(provider), d.By, d.Reason, d.Token, d.Uncertified)
	return err
}

// RequestAttemptIfNoneLives asks for a new attempt on the provider, and reopens the job if
// it had failed. It fails with [onejob.ErrAttemptUnresolved] and [onejob.ErrJobClosed], and
// with [onejob.ErrBudgetExceeded] where the job's reservation was released and does not fit
// into the budget any more. Where the job reserved in another currency than the provider is
// priced in, or than its owner's budget is in by now, it is an [onejob.ErrInvalidRequest].
// A provider that needs a certificate and has none is an [onejob.ErrNotCertified].
func (s *Store) RequestAttemptIfNoneLives(ctx context.Context, jobID, provider string, d Decision) (onejob.Progress, error) {
	d.provider = provider
	return s.decide(ctx, jobID, onejob.DecideStartAttempt, d, func(tx pgx.Tx, job lockedJob) error {
		if job.Status == onejob.StatusSucceeded || job.Status == onejob.StatusCancelled {
			return onejob.Errorf(onejob.CodeJobClosed, "job %s is %s: submit a new intention under a new key", jobID, job.Status)
		}
		if err := refuseWhileUnresolved(ctx, tx, jobID, job); err != nil {
			return err
		}
		if err := checkCertified(ctx, tx, jobID, provider, d); err != nil {
			return err
		}
		if err := refuseOtherCurrency(ctx, tx, jobID, provider); err != nil {
			return err
		}
		if err := request(ctx, tx, jobID, provider); err != nil {
			return err
		}
		return logDecision(ctx, tx, jobID, onejob.DecideStartAttempt, 0, "", provider, d)
	})
}

// request keeps whom the next attempt of a running job asks; one that had failed is opened
// again.
func request(ctx context.Context, tx pgx.Tx, jobID, provider string) error {
	tag, err := tx.Exec(ctx, `UPDATE jobs SET requested_provider = $2 WHERE id = $1 AND status = 'running'`, jobID, provider)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	return translate("reopen the job", pgx.BeginFunc(ctx, tx, func(reopening pgx.Tx) error {
		return reopenIfFailed(ctx, reopening, jobID, provider)
	}))
}

// reopenIfFailed opens a failed job again and reserves again what may be spent on it: if that
// is too much by now, nothing of it may stay. It fails with [onejob.ErrJobClosed] for a job
// that has not failed.
func reopenIfFailed(ctx context.Context, tx pgx.Tx, jobID, provider string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE jobs SET requested_provider = $2, status = 'running', version = version + 1, error = NULL, finished_at = NULL
		WHERE id = $1 AND status = 'failed'`, jobID, provider)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return onejob.Errorf(onejob.CodeJobClosed, "job %s is neither running nor failed: submit a new intention under a new key", jobID)
	}
	_, err = tx.Exec(ctx, `SELECT onejob_reserve_again($1)`, jobID)
	return err
}

// refuseOtherCurrency refuses a provider none of whose prices is in the currency that the job
// reserved in.
func refuseOtherCurrency(ctx context.Context, tx pgx.Tx, jobID, provider string) error {
	var reserved, priced string
	err := tx.QueryRow(ctx, `
		SELECT r.currency, min(p.currency::text)
		FROM (SELECT currency FROM reservations WHERE job_id = $1 ORDER BY id DESC LIMIT 1) r
		JOIN prices p ON p.provider = $2 AND p.valid_from <= clock_timestamp()
		GROUP BY r.currency HAVING bool_and(p.currency <> r.currency)`, jobID, provider).Scan(&reserved, &priced)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return onejob.Errorf(onejob.CodeInvalidRequest, "provider %q is priced in %s and job %s reserved in %s: ask a provider that is priced in %[4]s",
		provider, priced, jobID, reserved)
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
// to win like any other. It fails as [Store.CancelAttemptIfLive] does, and with
// [onejob.ErrInvalidRequest] for a result that breaks the contract which the attempt was asked by.
func (s *Store) ResolveAttemptIfLive(ctx context.Context, jobID string, number int, as onejob.AttemptState, result json.RawMessage, d Decision) (onejob.Progress, error) {
	resolved := Outcome{State: as, Reason: onejob.ReasonResolved, Detail: d.Reason, Result: result, RecordedBy: d.Token}
	return s.resolve(ctx, jobID, number, onejob.DecideResolveAttempt, resolved, d)
}

func (s *Store) resolve(ctx context.Context, jobID string, number int, action onejob.DecisionAction, o Outcome, d Decision) (onejob.Progress, error) {
	d.attempt = number
	return s.decide(ctx, jobID, action, d, func(tx pgx.Tx, job lockedJob) error {
		a, err := unresolvedAttempt(ctx, tx, jobID, number)
		if err != nil {
			return err
		}
		if a.State.Final() {
			return onejob.Errorf(onejob.CodeNothingToResolve, "attempt %d of job %s has its answer already: it is being decided on", a.Number, jobID)
		}
		if o.State == onejob.AttemptSucceeded {
			if err := checkResolved(ctx, tx, a, o.Result, d); err != nil {
				return err
			}
		}
		if _, err := writeOutcome(ctx, tx, a, job, o); err != nil {
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
// that was not decided on yet is discarded, what was reserved is free again. It fails with [onejob.ErrJobClosed].
func (s *Store) CancelJobIfOpen(ctx context.Context, jobID string, d Decision) (onejob.Progress, error) {
	return s.decide(ctx, jobID, onejob.DecideCancelJob, d, func(tx pgx.Tx, job lockedJob) error {
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
			WITH closed AS (
				UPDATE jobs SET status = 'cancelled', version = version + 1, requested_provider = NULL, finished_at = clock_timestamp()
				WHERE id = $1
				RETURNING `+closedJob+`
			), `+releaseReservation+`, `+tellClosed+`
			SELECT FROM closed`, jobID); err != nil {
			return err
		}
		return logDecision(ctx, tx, jobID, onejob.DecideCancelJob, 0, "", "", d)
	})
}

// giveUp ends an attempt whose job is being cancelled.
func giveUp(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, d Decision) error {
	switch {
	case !a.State.Final():
		_, err := writeOutcome(ctx, tx, a, job, Outcome{State: onejob.AttemptCancelled, Reason: onejob.ReasonCancelled, Detail: d.Reason, RecordedBy: d.Token})
		return err
	case a.Unresolved():
		return discardUndecided(ctx, tx, a, job)
	}
	return nil
}
