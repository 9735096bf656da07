package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Callback is what a provider told of an attempt by calling back.
type Callback struct {
	Provider  string
	WebhookID string // the sender's id of the message: the same for one that is sent again
	JobID     string
	Attempt   int
	Outcome   *Outcome // nil: it is still in progress
	Reference string   // the provider's own name for the call; empty: it gave none
}

// CallbackEffect is what a callback did.
type CallbackEffect string

// The effects.
const (
	CallbackResolved CallbackEffect = "resolved" // the attempt has its outcome by it
	CallbackNoted    CallbackEffect = "noted"    // it said no outcome yet
	CallbackLate     CallbackEffect = "late"     // the attempt had its outcome: nothing changed but the log
	CallbackRepeated CallbackEffect = "repeated" // it was taken before: nothing changed
)

// Heard is what hearing a callback did.
type Heard struct {
	Effect     CallbackEffect
	WorkflowID string   // of the job, which is to be told
	Recorded   Recorded // of an outcome
}

// HearCallbackOnce records what the callback says, exactly as a late answer is, unless a
// callback with its id was heard before. The row of the callback and what it changes
// commit together, so one that was acknowledged is never lost. It fails with
// [onejob.ErrNotFound] if the provider has no such attempt.
func (s *Store) HearCallbackOnce(ctx context.Context, c Callback) (heard Heard, err error) {
	err = s.inTx(ctx, "hear the callback", func(tx pgx.Tx) error {
		job, a, err := lockAttempt(ctx, tx, c.JobID, c.Attempt)
		if err != nil {
			return err
		}
		if a.Provider != c.Provider {
			return onejob.Errorf(onejob.CodeNotFound, "job %s has no attempt %d on %s", c.JobID, c.Attempt, c.Provider)
		}
		heard = Heard{Effect: effectOf(c, a), WorkflowID: job.WorkflowID}
		tag, err := tx.Exec(ctx, `
			INSERT INTO callbacks (provider, webhook_id, attempt_id, outcome) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
			c.Provider, c.WebhookID, a.id, heard.Effect)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			heard.Effect = CallbackRepeated
			return nil
		}
		return heard.apply(ctx, tx, a, job, c)
	})
	return heard, err
}

func effectOf(c Callback, a attemptRow) CallbackEffect {
	switch {
	case a.State.Final():
		return CallbackLate
	case c.Outcome == nil:
		return CallbackNoted
	}
	return CallbackResolved
}

// apply changes the attempt as the callback says, under its job's lock.
func (h *Heard) apply(ctx context.Context, tx pgx.Tx, a attemptRow, job lockedJob, c Callback) error {
	if c.Outcome == nil {
		_, err := tx.Exec(ctx, `
			UPDATE attempts SET provider_ref = $2
			WHERE id = $1 AND $2::text IS NOT NULL AND state IN ('starting', 'running', 'unknown')`, a.id, nullable(c.Reference))
		return err
	}
	late := h.Effect == CallbackLate
	after, err := takeOutcome(ctx, tx, a, job, *c.Outcome, late)
	h.Recorded = Recorded{Attempt: after.Attempt, Changed: !late, WasUnknown: a.State == onejob.AttemptUnknown, Late: late}
	return err
}
