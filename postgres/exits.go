package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Sought is an attempt whose outcome is looked for.
type Sought struct {
	onejob.Attempt
	Kind      string        // of the job
	Reference string        // the provider's own name for the call; empty: it gave none
	Age       time.Duration // since the attempt started, by the database's clock
	ReAsks    int           // so far
	Kept      bool          // the bytes that were sent are there

	Contract   string // hash of the contract that it was asked by; empty: the kind had none
	InputBytes int    // of the job
	SentTo     string // a digest of where the call went; empty: not known

	CancelAsked bool // the provider was asked to give the call up, and said yes or no
}

// SoughtAttempt returns the attempt as those see it who look for its outcome. It fails
// with [onejob.ErrNotFound].
func (s *Store) SoughtAttempt(ctx context.Context, jobID string, number int) (Sought, error) {
	var a Sought
	var reference *string
	var ageMs int64
	err := s.pool.QueryRow(ctx, `
		SELECT a.number, a.lane, a.provider, a.state, coalesce(a.reason, ''), j.kind, a.provider_ref, a.reasks, a.request IS NOT NULL,
			coalesce(a.provider_cancel <> 'unsure', false), octet_length(j.input::text), coalesce(a.sent_to, ''),
			coalesce(a.contract_sha256, ''),
			(extract(epoch FROM clock_timestamp() - a.started_at) * 1000)::bigint
		FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE a.job_id = $1 AND a.number = $2`, jobID, number).
		Scan(&a.Number, &a.Lane, &a.Provider, &a.State, &a.Reason, &a.Kind, &reference, &a.ReAsks, &a.Kept, &a.CancelAsked, &a.InputBytes, &a.SentTo, &a.Contract, &ageMs)
	a.Reference, a.Age = orZero(reference), time.Duration(ageMs)*time.Millisecond
	return a, translate("read the attempt", orNotFound(err, "job %s has no attempt %d: see 'onejob attempt list %s'", jobID, number, jobID))
}

// Input returns the job's input. It fails with [onejob.ErrNotFound].
func (s *Store) Input(ctx context.Context, jobID string) (input []byte, err error) {
	err = s.pool.QueryRow(ctx, `SELECT input FROM jobs WHERE id = $1`, jobID).Scan(&input)
	return input, translate("read the job's input", orNotFound(err, "job %s does not exist: check the id", jobID))
}

// CountReAskIfUnknown counts a re-ask of the attempt, which is the permission to send it,
// and returns the bytes to send. It returns nil where there is none: the attempt is not
// unknown, was asked most times already, or is older than window, by the database's clock.
func (s *Store) CountReAskIfUnknown(ctx context.Context, jobID string, number int, window time.Duration, most int) (body []byte, err error) {
	err = s.pool.QueryRow(ctx, `
		UPDATE attempts SET reasks = reasks + 1
		WHERE job_id = $1 AND number = $2 AND state = 'unknown' AND request IS NOT NULL AND reasks < $3
		  AND clock_timestamp() < started_at + $4::bigint * interval '1 millisecond'
		RETURNING request`, jobID, number, most, milliseconds(window)).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return body, translate("count the re-ask", err)
}

// NoteProviderCancel keeps what the provider said when it was asked to give the attempt
// up. What it agreed to, or refused, stays.
func (s *Store) NoteProviderCancel(ctx context.Context, jobID string, number int, verdict string) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE attempts SET provider_cancel = $3
		WHERE job_id = $1 AND number = $2 AND (provider_cancel IS NULL OR provider_cancel = 'unsure')`, jobID, number, verdict)
	return translate("note the provider's answer to a cancel", err)
}
