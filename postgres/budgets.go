package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Budget is what an owner may spend in a month, by UTC, and where that stands.
type Budget struct {
	Owner    string         `json:"owner"`
	Month    string         `json:"month"` // like 2026-11
	Limit    *onejob.Amount `json:"limit"` // null: none any more
	Currency string         `json:"currency"`
	Reserved onejob.Amount  `json:"reserved"` // for jobs that have no outcome yet
	Spent    onejob.Amount  `json:"spent"`    // charged
	Left     *onejob.Amount `json:"left"`     // below zero: real use passed what was reserved, or the limit was lowered; null: no limit
}

// BudgetChange is what a budget is to be from a month on.
type BudgetChange struct {
	Owner    string
	Month    string         // empty: the current one, by the database's clock
	Limit    *onejob.Amount // nil: none any more
	Currency string         // empty: that of the owner's budget before
}

func (c BudgetChange) check() error {
	if err := cmp.Or(checkBudgeted(c.Owner), checkMonth(c.Month)); err != nil {
		return err
	}
	if c.Limit != nil {
		if err := c.Limit.Check(); err != nil {
			return onejob.Errorf(onejob.CodeInvalidRequest, "limit: %w", err)
		}
	}
	if c.Currency == "" {
		return nil
	}
	return onejob.CheckCurrency(c.Currency)
}

// checkBudgeted lets in the owner that certifications are paid by: its budget bounds them.
func checkBudgeted(owner string) error {
	if owner == onejob.CertificationOwner {
		return nil
	}
	return onejob.CheckOwner(owner)
}

func checkMonth(month string) error {
	if _, err := time.Parse("2006-01", month); month != "" && err != nil {
		return onejob.Errorf(onejob.CodeInvalidRequest, "%.20q is not a month: write it like 2026-11", month)
	}
	return nil
}

const (
	currentMonth = `date_trunc('month', clock_timestamp() AT TIME ZONE 'UTC')::date`
	// theMonth is the first day of the month in $2, which may be empty.
	theMonth = `coalesce(to_date(nullif($2, ''), 'YYYY-MM'), ` + currentMonth + `)`
)

// SetBudget sets the limit of this month or a later one and of those after it, up to the next
// that has a limit of its own; the counters stay as they are. It fails with
// [onejob.ErrInvalidRequest] for a month that is over and for a first budget without a
// currency, and with [onejob.ErrConflict] for a month whose budget is in another one.
func (s *Store) SetBudget(ctx context.Context, c BudgetChange) (b Budget, err error) {
	if err := c.check(); err != nil {
		return b, err
	}
	err = s.inTx(ctx, "set the budget", func(tx pgx.Tx) error {
		// No arbiter is named: one alone would leave the other unique index to raise its violation
		// when two first budgets meet.
		var month string
		var over bool
		err := tx.QueryRow(ctx, `
			WITH m AS (SELECT `+theMonth+` AS month, `+currentMonth+` AS current),
			inserted AS (
				INSERT INTO budgets (owner_id, month, "limit", currency)
				SELECT $1::text, m.month, $3::numeric, coalesce($4::text, (
					SELECT currency FROM budgets WHERE owner_id = $1::text AND month <= m.month ORDER BY month DESC LIMIT 1))
				FROM m WHERE m.month >= m.current
				ON CONFLICT DO NOTHING)
			SELECT to_char(month, 'YYYY-MM'), month < current FROM m`,
			c.Owner, c.Month, c.Limit, nullable(c.Currency)).Scan(&month, &over)
		if lacks(err, "budgets", "currency") {
			return onejob.Errorf(onejob.CodeInvalidRequest, "owner %q has no budget yet: give the currency of the first one", c.Owner)
		}
		if err != nil {
			return err
		}
		if over {
			return onejob.Errorf(onejob.CodeInvalidRequest, "%s is over: set the budget of this month, by UTC, or of a later one", month)
		}
		set, err := tx.Exec(ctx, `
			UPDATE budgets SET "limit" = $3
			WHERE owner_id = $1 AND month = to_date($2, 'YYYY-MM') AND currency = coalesce($4, currency)`,
			c.Owner, month, c.Limit, nullable(c.Currency))
		if err != nil {
			return err
		}
		if b, err = queryBudget(ctx, tx, c.Owner, month); err == nil && set.RowsAffected() == 0 {
			return onejob.Errorf(onejob.CodeConflict, "the budget of %q for %s is in %s and cannot be in %s: keep the currency, or change it from another month on", c.Owner, b.Month, b.Currency, c.Currency)
		}
		return err
	})
	return b, err
}

// Budget returns the owner's budget of a month; empty: the current one. A month without a
// row of its own has the limit of the last one before it. It fails with
// [onejob.ErrNotFound]: then nothing limits the owner.
func (s *Store) Budget(ctx context.Context, owner, month string) (Budget, error) {
	if err := checkMonth(month); err != nil {
		return Budget{}, err
	}
	b, err := queryBudget(ctx, s.pool, owner, month)
	return b, translate("read the budget", err)
}

func queryBudget(ctx context.Context, q querier, owner, month string) (b Budget, err error) {
	rows, err := q.Query(ctx, `
		SELECT owner_id, to_char(m.month, 'YYYY-MM'), "limit", currency, CASE WHEN own THEN reserved ELSE 0 END, CASE WHEN own THEN spent ELSE 0 END,
		       CASE WHEN own THEN "limit" - reserved - spent ELSE "limit" END
		FROM (SELECT `+theMonth+` AS month) m, budgets b, LATERAL (SELECT b.month = m.month AS own) o
		WHERE owner_id = $1 AND b.month <= m.month ORDER BY b.month DESC LIMIT 1`, owner, month)
	if err != nil {
		return b, err
	}
	b, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Budget])
	return b, orNotFound(err, "owner %q has no budget: nothing limits what it spends, until 'onejob budget set' does", owner)
}
