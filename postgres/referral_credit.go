package postgres

import (
	"context"

	"github.com/onejob/onejob/messages"
)

// referralCredit credits who brought an owner when a job of that owner is charged: once,
// whatever is charged later or at the same moment, since the entry's source is the referee.
var referralCredit = messages.Consumer{
	Group: "referral_credit", Topics: []string{"job.charge"},
	Apply: func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
		var charged []string
		for _, m := range batch {
			charged = append(charged, m.Owner)
		}
		_, err := tx.Exec(ctx, `
			WITH entry AS (
				INSERT INTO ledger (source, owner_id, kind, amount, currency, reason, recorded_by)
				SELECT 'ledger.referral:' || referee, referrer, 'credit', amount, currency, 'brought ' || referee, 'referral_credit'
				FROM referrals WHERE referee = ANY ($1) ORDER BY referee
				ON CONFLICT (source) DO NOTHING RETURNING *
			)`+entryTold, planned, charged)
		return err
	},
}
