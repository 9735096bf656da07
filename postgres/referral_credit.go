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
			WITH credit AS (
				INSERT INTO ledger (source, owner_id, kind, amount, currency, reason, recorded_by)
				SELECT 'ledger.referral:' || referee, referrer, 'credit', amount, currency, 'brought ' || referee, 'referral_credit'
				FROM referrals WHERE referee = ANY ($1) ORDER BY referee
				ON CONFLICT (source) DO NOTHING RETURNING id, source, owner_id, amount, currency
			)
			INSERT INTO outbox (message_key, owner_id, topic, payload)
			SELECT source, owner_id, 'ledger.referral',
				json_build_object('entry', id, 'owner', owner_id, 'amount', amount::text, 'currency', currency)
			FROM credit`, planned, charged)
		return err
	},
}
