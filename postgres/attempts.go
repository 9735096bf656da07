package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Start is the attempt that an execution asks to start.
type Start struct {
	JobID      string
	WorkflowID string // the workflow that asks; it must be the job's
	Number     int
	Lane       int
	Provider   string
	Model      string // that the provider is asked for; empty: it has none
	Execution  string // UUID of this execution of the activity

	// Request returns the bytes to keep for a re-ask, of what the call will send; nil, or
	// returning nil: none are kept. It must not wait for anything.
	Request func(kind string, input json.RawMessage) []byte

	SentTo string // a digest of where the call goes; empty: not known

	// Contract returns the contract by which a kind of job asks; nil, or returning nil: none.
	// An attempt on another provider than the job's own then needs a certificate for it.
	Contract func(kind string) *onejob.Contract
	Adapter  string // the version of the provider's adapter, which certificates are of; empty: it has none

	MostAtOnce int // attempts on the provider under way at once; 0: no bound
}

// Started is the answer to a [Start].
type Started struct {
	Busy  bool            // the provider has as many attempts under way as it may: try again
	Mine  bool            // the attempt is this execution's: it may call the provider, once
	Kind  string          // of the job, where Mine
	Input json.RawMessage // of the job, where Mine

	// Skipped is the attempt as it was recorded where its provider has no certificate: it
	// failed and calls nobody. Nil: it has one, or needs none.
	Skipped *onejob.Attempt
}

// StartAttemptIfNoneLives commits the attempt's row, which is the permission to call
// its provider, if the job is open, nothing else lives in the lane and the number is
// free. An attempt that is there already is never started again, unless it carries this
// very execution's token: then the acknowledgement of an earlier try was lost.
//
// Mine false means that the rows say otherwise than the caller believes: read them, unless
// Busy says that nothing was looked at. It fails with [onejob.ErrNotFound] and [onejob.ErrIdentityMismatch].
func (s *Store) StartAttemptIfNoneLives(ctx context.Context, a Start) (started Started, err error) {
	for range 3 { // a certificate may expire behind the look for it; the next look finds none
		if started, err = s.startAttempt(ctx, a); !errors.Is(err, onejob.ErrNotCertified) {
			break
		}
	}
	return started, err
}

func (s *Store) startAttempt(ctx context.Context, a Start) (started Started, err error) {
	err = s.inTx(ctx, "start the attempt", func(tx pgx.Tx) error {
		if started.Busy, err = busy(ctx, tx, a); err != nil || started.Busy {
			return err
		}
		turn, err := takeTurn(ctx, tx, a)
		if err != nil {
			return err
		}
		if turn.open {
			skipped, inserted, err := insertAttempt(ctx, tx, a, turn)
			switch {
			case err == nil && skipped != nil:
				started = Started{Skipped: skipped}
				return nil
			case err != nil || inserted:
				started = Started{Mine: err == nil, Kind: turn.kind, Input: turn.input}
				return err
			}
		}
		if started, err = readIfMine(ctx, tx, a); err != nil {
			return err
		}
		return errNothingStarted
	})
	if errors.Is(err, onejob.ErrAttemptUnresolved) {
		return Started{}, nil
	}
	if errors.Is(err, errNothingStarted) {
		return started, nil
	}
	return started, err
}

// busy says whether the provider has as many attempts under way as it may, calls of
// certifications among them. An unknown one counts while its connection may be open: it is
// silent, and not known to be lost. Until the transaction ends, no other attempt on the provider
// is counted.
func busy(ctx context.Context, tx pgx.Tx, a Start) (bool, error) {
	if a.MostAtOnce == 0 {
		return false, nil
	}
	var locked bool
	err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('onejob provider ' || $1, 0))`, a.Provider).Scan(&locked)
	if err != nil || !locked {
		return true, err
	}
	var underway int
	err = tx.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM attempts a JOIN jobs j ON j.id = a.job_id
			WHERE a.provider = $1 AND a.state IN ('starting', 'running', 'unknown') AND a.execution IS DISTINCT FROM $2
			  AND (a.state <> 'unknown' OR a.reason = $3 AND clock_timestamp() < a.started_at + j.listen_for_ms * interval '1 millisecond'))
		     + (SELECT count(*) FROM certification_calls k JOIN certification_runs r ON r.id = k.run_id
			WHERE r.provider = $1 AND k.state = 'calling' AND k.execution IS DISTINCT FROM $2 AND clock_timestamp() < k.listen_until)`,
		a.Provider, a.Execution, onejob.ReasonTimeout).Scan(&underway)
	return underway >= a.MostAtOnce, err
}

// errNothingStarted rolls back the turn that was taken for an attempt whose number was
// not free.
var errNothingStarted = errors.New("nothing started")

// insertAttempt returns false if the number is taken. Where the provider needs a certificate
// and has none, it inserts the attempt as one that was skipped.
func insertAttempt(ctx context.Context, tx pgx.Tx, a Start, t turn) (skipped *onejob.Attempt, inserted bool, err error) {
	by, err := passGate(ctx, tx, a, t)
	if err != nil {
		return nil, false, err
	}
	if by.closed != "" {
		skipped, err = insertSkipped(ctx, tx, a, t, by)
		return skipped, skipped != nil, err
	}
	var request []byte
	if a.Request != nil {
		request = a.Request(t.kind, t.input)
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO attempts (job_id, number, lane, provider, model, job_version, execution, request, sent_to,
			contract_sha256, adapter, certificate_id, uncertified)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (job_id, number) DO NOTHING`,
		a.JobID, a.Number, a.Lane, a.Provider, a.Model, t.version, a.Execution, request, nullable(a.SentTo),
		nullable(by.contract), nullable(by.adapter), by.certificate, by.decision)
	return nil, tag.RowsAffected() == 1, err
}

// turn is the answer to an attempt that wants to be next.
type turn struct {
	open    bool // false: the job is closed, waits for an unknown attempt, or was asked for another provider
	version int
	kind    string
	input   []byte
	own     bool // the provider is the job's own: its owner asked for it
}

// takeTurn moves an open job to running for the attempt.
func takeTurn(ctx context.Context, tx pgx.Tx, a Start) (t turn, err error) {
	err = tx.QueryRow(ctx, `
		UPDATE jobs SET status = CASE status WHEN 'accepted' THEN 'running' ELSE status END, requested_provider = NULL
		WHERE id = $1 AND workflow_id = $2
		  AND (status IN ('accepted', 'running') OR status = 'unknown' AND $3 = 1)
		  AND (requested_provider IS NULL OR requested_provider = $4)
		  AND `+mayAsk+`
		RETURNING version, kind, input, provider = $4`, a.JobID, a.WorkflowID, a.Lane, a.Provider).Scan(&t.version, &t.kind, &t.input, &t.own)
	if !errors.Is(err, pgx.ErrNoRows) {
		t.open = err == nil
		return t, err
	}
	job, err := lockJob(ctx, tx, a.JobID)
	if err != nil {
		return turn{}, err
	}
	if job.WorkflowID != a.WorkflowID {
		return turn{}, onejob.Errorf(onejob.CodeIdentityMismatch, "workflow %s is not job %s's: it runs as %s", a.WorkflowID, a.JobID, job.WorkflowID)
	}
	return turn{}, checkMayAsk(ctx, tx, a)
}

// mayAsk says that the provider $4 is one of the job $1's, or was asked for by somebody.
const mayAsk = `($4 = provider OR $4 = ANY (fallbacks)
	OR EXISTS (SELECT FROM decisions d WHERE d.job_id = $1 AND d.action = 'start-attempt' AND d.provider = $4 AND d.refused IS NULL))`

// checkMayAsk refuses a provider that nobody named: what the workflow believes of its job
// is not what the row says.
func checkMayAsk(ctx context.Context, tx pgx.Tx, a Start) error {
	var may bool
	err := tx.QueryRow(ctx, `SELECT `+mayAsk+` FROM jobs WHERE id = $1 AND workflow_id = $2 AND $3::int IS NOT NULL`,
		a.JobID, a.WorkflowID, a.Lane, a.Provider).Scan(&may)
	if err == nil && !may {
		err = onejob.Errorf(onejob.CodeIdentityMismatch, "job %s does not name provider %q, nor did anybody ask for it: the workflow's input is not the job's", a.JobID, a.Provider)
	}
	return err
}

// readIfMine reads what the call needs if the attempt carries the execution's token
// and has no outcome yet.
func readIfMine(ctx context.Context, tx pgx.Tx, a Start) (started Started, err error) {
	var input []byte
	err = tx.QueryRow(ctx, `
		SELECT j.kind, j.input FROM attempts a JOIN jobs j ON j.id = a.job_id
		WHERE a.job_id = $1 AND a.number = $2 AND a.execution = $3 AND a.state = 'starting'`,
		a.JobID, a.Number, a.Execution).Scan(&started.Kind, &input)
	if errors.Is(err, pgx.ErrNoRows) {
		return Started{}, nil
	}
	started.Mine, started.Input = err == nil, input
	return started, err
}

// MarkUnknownIfLive makes the attempt unknown if it has no outcome yet, and its job
// with it; it updates the reason of one that is unknown already. A reference, where
// given, is kept.
func (s *Store) MarkUnknownIfLive(ctx context.Context, jobID string, number int, why Silence) (recorded Recorded, err error) {
	err = s.inTx(ctx, "mark the attempt unknown", func(tx pgx.Tx) error {
		_, before, err := lockAttempt(ctx, tx, jobID, number)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE attempts SET state = 'unknown', reason = $3, detail = $4,
				provider_ref = coalesce($5, provider_ref), usage = coalesce($6, usage)
			WHERE job_id = $1 AND number = $2 AND state IN ('starting', 'running', 'unknown')`,
			jobID, number, why.Reason, nullable(why.Detail), nullable(why.Reference), nullable(string(why.Usage))); err != nil {
			return err
		}
		if err := followAttempts(ctx, tx, jobID); err != nil {
			return err
		}
		after, err := readAttempt(ctx, tx, jobID, number)
		recorded = Recorded{Attempt: after.Attempt, Changed: after.State != before.State}
		return err
	})
	return recorded, err
}

// Silence is why an attempt is unknown.
type Silence struct {
	Reason    onejob.Reason
	Detail    string          // at most 4096 bytes
	Reference string          // the provider's, if it gave one
	Usage     json.RawMessage // nil: none reported
}

// MarkRunningIfStarting records that the provider took the attempt and how it calls it.
// Of one that is unknown by then only the name is kept. It returns whether that was so: the
// name may be a way out.
func (s *Store) MarkRunningIfStarting(ctx context.Context, jobID string, number int, reference string) (late bool, err error) {
	err = s.pool.QueryRow(ctx, `
		UPDATE attempts SET state = CASE state WHEN 'starting' THEN 'running' ELSE state END, provider_ref = coalesce(provider_ref, $3)
		WHERE job_id = $1 AND number = $2 AND state IN ('starting', 'running', 'unknown')
		RETURNING state = 'unknown'`, jobID, number, reference).Scan(&late)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return late, translate("mark the attempt running", err)
}

// followAttempts makes an open job unknown exactly while one of its attempts is.
func followAttempts(ctx context.Context, tx pgx.Tx, jobID string) error {
	_, err := tx.Exec(ctx, `
		WITH waits AS (SELECT EXISTS (SELECT FROM attempts WHERE job_id = $1 AND state = 'unknown') AS unknown)
		UPDATE jobs SET status = CASE WHEN waits.unknown THEN 'unknown' ELSE 'running' END, requested_provider = NULL
		FROM waits
		WHERE id = $1 AND status IN ('running', 'unknown') AND (status = 'unknown') <> waits.unknown`, jobID)
	return err
}

// Outcome is what became of an attempt.
type Outcome struct {
	State      onejob.AttemptState // succeeded, failed or cancelled
	Reason     onejob.Reason
	Detail     string // at most 4096 bytes
	Retryable  bool
	RetryAfter time.Duration
	Reference  string          // the provider's
	Usage      json.RawMessage // nil: none reported; that of a success is estimated
	Result     json.RawMessage // of a success
	RecordedBy string          // token of the execution or decision that found out
}

// Recorded says what recording an outcome did.
type Recorded struct {
	Attempt    onejob.Attempt // as the row stands now
	Changed    bool           // its state is another than before
	WasUnknown bool           // others may have believed it unknown until now and must be told
	Late       bool           // the attempt had an outcome; this one changed nothing but the log
}

// RecordOutcomeIfLive records the outcome if the attempt has none, and books its cost if it
// used something: also that of an answer that changes nothing else. A result whose job is
// closed, or whose attempt was given up, is discarded: its payload is dropped, its
// hash, size and reason are kept.
func (s *Store) RecordOutcomeIfLive(ctx context.Context, jobID string, number int, o Outcome) (recorded Recorded, err error) {
	err = s.inTx(ctx, "record the outcome", func(tx pgx.Tx) error {
		job, before, err := lockAttempt(ctx, tx, jobID, number)
		if err != nil {
			return err
		}
		recorded = Recorded{Changed: !before.State.Final(), Late: before.State.Final() && before.recordedBy != o.RecordedBy}
		// Of a repeated call nobody knows what the first one found.
		recorded.WasUnknown = !recorded.Late && before.State != onejob.AttemptStarting && before.State != onejob.AttemptRunning
		after, err := takeOutcome(ctx, tx, before, job, o, recorded.Late)
		recorded.Attempt = after.Attempt
		return err
	})
	return recorded, err
}

// takeOutcome returns the attempt as it is with the outcome.
func takeOutcome(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, o Outcome, late bool) (attemptRow, error) {
	switch {
	case late:
		if err := discardLate(ctx, tx, a, job, o); err != nil {
			return a, err
		}
		return readAttempt(ctx, tx, a.jobID, a.Number)
	case a.State.Final():
		return a, nil // it is this outcome, recorded by an earlier try
	}
	return writeOutcome(ctx, tx, a, job, o)
}

// writeOutcome gives a live attempt its outcome, under its job's lock.
func writeOutcome(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, o Outcome) (after attemptRow, err error) {
	lost := o.State == onejob.AttemptSucceeded && (job.Status.Closed() || job.Version != a.jobVersion)
	result := nullable(string(o.Result))
	if lost || o.State != onejob.AttemptSucceeded {
		result = nil
	}
	rows, err := tx.Query(ctx, `
		WITH done AS (
			UPDATE attempts SET state = $2, reason = $3, detail = $4, retryable = $5, retry_after_ms = $6,
				provider_ref = coalesce($7, provider_ref), usage = `+whatItUsed+`, result = $9, recorded_by = $10,
				request = NULL, finished_at = clock_timestamp(),
				decided_at = CASE WHEN $11 THEN clock_timestamp() END, discarded_at = CASE WHEN $11 THEN clock_timestamp() END
			WHERE id = $1
			RETURNING `+costed+`, recorded_by AS booked_by
		), `+bookCost+`
		SELECT `+attemptColumns+` FROM done`,
		a.id, o.State, nullable(o.Reason), nullable(o.Detail), o.Retryable, milliseconds(o.RetryAfter),
		nullable(o.Reference), nullable(string(o.Usage)), result, o.RecordedBy, lost, len(o.Result))
	if err != nil {
		return a, err
	}
	if after, err = pgx.CollectExactlyOneRow(rows, scanAttempt); err != nil {
		return a, err
	}
	if lost {
		if err := logDiscarded(ctx, tx, a, job, onejob.ReasonJobClosed, string(o.Result)); err != nil {
			return after, err
		}
	}
	if a.State != onejob.AttemptUnknown {
		return after, nil // the job's status does not hang on this attempt
	}
	return after, followAttempts(ctx, tx, a.jobID)
}

// whatItUsed is the usage of an attempt that gets its outcome: what the answer says ($8)
// rather than what was said before, and either rather than an estimate. A success that
// nobody told the usage of is estimated here, from the bytes of the job's input and of the
// result ($12), as [onejob.TokensIn] does.
const whatItUsed = `coalesce(
	CASE WHEN ($8::json ->> 'estimated')::boolean THEN coalesce(usage, $8) ELSE coalesce($8, usage) END,
	CASE WHEN $2 = 'succeeded' THEN json_build_object(
		'input_tokens', ((SELECT octet_length(j.input::text) FROM jobs j WHERE j.id = job_id) + 3) / 4,
		'output_tokens', ($12::integer + 3) / 4, 'estimated', true) END)`

// discardLate drops what came after its attempt had its outcome: the cost of it is booked,
// unless the attempt has one, and a result is logged.
func discardLate(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, o Outcome) error {
	if o.Usage != nil {
		if err := bookLate(ctx, tx, a, o); err != nil {
			return err
		}
	}
	if o.State != onejob.AttemptSucceeded {
		return nil
	}
	if err := logDiscarded(ctx, tx, a, job, onejob.ReasonLateResult, string(o.Result)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE attempts SET discarded_at = clock_timestamp()
		WHERE id = $1 AND state <> 'succeeded' AND discarded_at IS NULL`, a.id)
	return err
}

// bookLate keeps the usage of a late answer, and books it, unless one is known: a call is
// booked once. It stays the estimate of a success that an operator found out.
func bookLate(ctx context.Context, tx pgx.Tx, a attemptRow, o Outcome) error {
	_, err := tx.Exec(ctx, `
		WITH done AS (
			UPDATE attempts SET usage = $2 WHERE id = $1 AND usage IS NULL
			RETURNING `+costed+`, $3 AS booked_by
		), `+bookCost+`
		SELECT FROM done`, a.id, string(o.Usage), o.RecordedBy)
	return err
}
