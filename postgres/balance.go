package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Balance is what an owner has, or owes if it is below zero, in a currency.
type Balance struct {
	Owner    string        `json:"owner"`
	Currency string        `json:"currency"`
	Balance  onejob.Amount `json:"balance"`
}

// Balances returns the owner's balances: what went to the owner's account less what went
// from it, over the ledger and nothing else.
func (s *Store) Balances(ctx context.Context, owner string) ([]Balance, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT owner_id, currency, sum(CASE WHEN to_account = 'owner:' || owner_id THEN amount ELSE -amount END)
		FROM ledger
		WHERE owner_id = $1 AND 'owner:' || owner_id IN (from_account, to_account) AND currency <> 'XXX'
		GROUP BY owner_id, currency ORDER BY currency`, owner)
	if err != nil {
		return nil, translate("read the balance", err)
	}
	balances, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Balance])
	return balances, translate("read the balance", err)
}

// LedgerSum is the sum over all accounts in a currency, which must be zero.
type LedgerSum struct {
	Currency string        `json:"currency"`
	Accounts int           `json:"accounts"`
	Sum      onejob.Amount `json:"sum"`
}

// SumLedger returns the sum over all accounts, by currency: what one account got, another
// one gave.
func (s *Store) SumLedger(ctx context.Context) ([]LedgerSum, error) {
	rows, err := s.pool.Query(ctx, sumLedger)
	if err != nil {
		return nil, translate("sum the ledger", err)
	}
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LedgerSum])
	return sums, translate("sum the ledger", err)
}

const sumLedger = `
	SELECT currency, count(DISTINCT account)::integer, sum(amount)
	FROM (SELECT to_account AS account, currency, amount FROM ledger
	      UNION ALL SELECT from_account, currency, -amount FROM ledger) AS moved
	WHERE account <> ''
	GROUP BY currency ORDER BY currency`
