package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Referral says who brought an owner, and what the referrer is credited with when the
// referee's first job is charged.
type Referral struct {
	Referee    string        `json:"referee"`
	Referrer   string        `json:"referrer"`
	Credit     onejob.Amount `json:"credit"`
	Currency   string        `json:"currency"`
	RecordedBy string        `json:"recorded_by"`
	CreatedAt  time.Time     `json:"created_at"`
}

func (r Referral) check() error {
	if err := cmp.Or(onejob.CheckOwner(r.Referee), onejob.CheckName("referrer", r.Referrer, onejob.MaxOwnerBytes), onejob.CheckOwner(r.Referrer)); err != nil {
		return err
	}
	if r.Referee == r.Referrer {
		return onejob.Errorf(onejob.CodeInvalidRequest, "owner %q cannot refer itself: name another referrer", r.Referee)
	}
	return cmp.Or(checkMoney(r.Credit, r.Currency), onejob.CheckSaid(r.RecordedBy, ""))
}

// SetReferralOnce keeps the referral, unless the referee has one: that is returned then. It
// fails with [onejob.ErrConflict] if that is another one, and with
// [onejob.ErrInvalidRequest].
func (s *Store) SetReferralOnce(ctx context.Context, r Referral) (there Referral, err error) {
	if err := r.check(); err != nil {
		return there, err
	}
	err = s.inTx(ctx, "keep the referral", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (referee) DO NOTHING`, r.Referee, r.Referrer, r.Credit, r.Currency, r.RecordedBy); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT referee, referrer, amount, currency, recorded_by, created_at FROM referrals WHERE referee = $1`, r.Referee)
		if err != nil {
			return err
		}
		there, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Referral])
		return err
	})
	there.CreatedAt = there.CreatedAt.UTC()
	if err == nil && (there.Referrer != r.Referrer || there.Credit.Cmp(r.Credit) != 0 || there.Currency != r.Currency) {
		err = onejob.Errorf(onejob.CodeConflict, "owner %q was referred by %q for %s %s: a referral never changes", r.Referee, there.Referrer, there.Credit, there.Currency)
	}
	return there, err
}
