package postgres

import (
	"context"

	"github.com/onejob/onejob/messages"
)

// referralCredit credits who brought an owner when a job of that owner is charged more than
// nothing: once, whatever is charged later or at the same moment, since the entry's source is
// the referee.
var referralCredit = messages.Consumer{
	Group: "referral_credit", Topics: []string{"job.charge"},
	Apply: func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
		_, err := tx.Exec(ctx, `
			WITH entry AS (
				INSERT INTO ledger (source, owner_id, kind, amount, currency, reason, recorded_by)
				SELECT 'ledger.referral:' || referee, referrer, 'credit', amount, currency, 'brought ' || referee, 'referral_credit'
				FROM referrals WHERE referee IN (
					SELECT owner_id FROM outbox WHERE message_key = ANY ($1) AND (payload ->> 'amount')::numeric > 0)
				ORDER BY referee
				ON CONFLICT (source) DO NOTHING RETURNING *
			)`+entryTold, planned, keysOf(batch))
		return err
	},
}
