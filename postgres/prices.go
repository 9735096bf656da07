package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// StoredPrice is a row of the prices.
type StoredPrice struct {
	ID         int64         `json:"id"`
	Provider   string        `json:"provider"`
	Model      string        `json:"model"`
	Unit       string        `json:"unit"`
	Price      onejob.Amount `json:"price"`
	Charge     onejob.Amount `json:"charge"`
	Currency   string        `json:"currency"`
	ValidFrom  time.Time     `json:"valid_from"`
	Current    bool          `json:"current"` // it is what a call is priced by that starts now
	RecordedBy string        `json:"recorded_by"`
	RecordedAt time.Time     `json:"recorded_at"`
}

// ImportPrices stores what the prices say and the database does not, and returns the new
// rows. A price without a time is compared with the one that is valid now, unless one of
// the same unit with a time, which has come, stands beside it: then that one speaks for
// now. A price with a time is stored once. One caller after the other imports, so ten at
// once with the same prices store one row of each. It fails with
// [onejob.ErrMisconfigured] for what cannot be a price, for another currency than the
// model's, and for another price than the stored one from the same time on, and with
// [onejob.ErrInvalidRequest] for what cannot be who stores them.
func (s *Store) ImportPrices(ctx context.Context, by string, prices []onejob.Price) (stored []StoredPrice, err error) {
	if err := onejob.CheckSaid(by, ""); err != nil {
		return nil, err
	}
	for _, p := range prices {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	err = s.inTx(ctx, "import the prices", func(tx pgx.Tx) error {
		stored = nil
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('onejob price import', 0))`); err != nil {
			return err
		}
		for _, p := range prices {
			row, err := importPrice(ctx, tx, by, p, timesBeside(p, prices))
			if err != nil {
				return err
			}
			stored = append(stored, row...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stored, nil
}

// timesBeside returns from when the prices of p's unit are valid that have a time.
func timesBeside(p onejob.Price, prices []onejob.Price) (times []time.Time) {
	for _, q := range prices {
		if q.Provider == p.Provider && q.Model == p.Model && q.Unit == p.Unit && !q.ValidFrom.IsZero() {
			times = append(times, q.ValidFrom)
		}
	}
	return times
}

// importPrice returns the row that it inserted, if any.
func importPrice(ctx context.Context, tx pgx.Tx, by string, p onejob.Price, beside []time.Time) ([]StoredPrice, error) {
	if err := checkCurrency(ctx, tx, p); err != nil {
		return nil, err
	}
	if !p.ValidFrom.IsZero() {
		return insertPriceFrom(ctx, tx, by, p)
	}
	return queryPrices(ctx, tx, `
		WITH current AS (
			SELECT price, charge FROM prices WHERE provider = $1 AND model = $2 AND unit = $3 AND valid_from <= clock_timestamp()
			ORDER BY valid_from DESC LIMIT 1)
		INSERT INTO prices (provider, model, unit, price, charge, currency, recorded_by)
		SELECT $1, $2, $3, $4::numeric, $5::numeric, $6, $7
		WHERE NOT EXISTS (SELECT FROM current WHERE price = $4::numeric AND charge = $5::numeric)
		  AND NOT EXISTS (SELECT FROM unnest($8::timestamptz[]) AS t WHERE t <= clock_timestamp())
		RETURNING `+priceColumns+`, true`,
		p.Provider, p.Model, p.Unit, p.Price, p.Charged(), p.Currency, by, beside)
}

// insertPriceFrom inserts a price with a time, unless it is there.
func insertPriceFrom(ctx context.Context, tx pgx.Tx, by string, p onejob.Price) ([]StoredPrice, error) {
	rows, err := queryPrices(ctx, tx, `
		INSERT INTO prices AS p (provider, model, unit, price, charge, currency, valid_from, recorded_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT ON CONSTRAINT prices_once DO NOTHING
		RETURNING `+priceColumns+`, `+priceIsCurrent,
		p.Provider, p.Model, p.Unit, p.Price, p.Charged(), p.Currency, p.ValidFrom, by)
	if err != nil || len(rows) > 0 {
		return rows, err
	}
	there, err := queryPrices(ctx, tx, `
		SELECT `+priceColumns+`, `+priceIsCurrent+` FROM prices p
		WHERE provider = $1 AND model = $2 AND unit = $3 AND valid_from = $4 AND (price, charge) <> ($5::numeric, $6::numeric)`,
		p.Provider, p.Model, p.Unit, p.ValidFrom, p.Price, p.Charged())
	for _, row := range there {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "provider %q, model %q: the price of unit %s from %s on is stored as %s, charge %s: rows never change, give another valid_from",
			row.Provider, row.Model, row.Unit, row.ValidFrom.Format(time.RFC3339Nano), row.Price, row.Charge)
	}
	return nil, err
}

// checkCurrency says before the trigger does, and with the remedy, that the units of a
// model have one currency.
func checkCurrency(ctx context.Context, tx pgx.Tx, p onejob.Price) error {
	var other string
	err := tx.QueryRow(ctx, `SELECT currency FROM prices WHERE provider = $1 AND model = $2 AND currency <> $3 LIMIT 1`,
		p.Provider, p.Model, p.Currency).Scan(&other)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return onejob.Errorf(onejob.CodeMisconfigured, "provider %q, model %q: its prices are in %s and cannot be in %s: give the provider another name, or keep the currency",
		p.Provider, p.Model, other, p.Currency)
}

// Prices returns the stored prices, of one provider unless that is empty, the newest of
// each unit first.
func (s *Store) Prices(ctx context.Context, provider string) ([]StoredPrice, error) {
	prices, err := queryPrices(ctx, s.pool, `
		SELECT `+priceColumns+`, `+priceIsCurrent+` FROM prices p WHERE $1 = '' OR provider = $1
		ORDER BY provider, model, unit, valid_from DESC`, provider)
	return prices, translate("list the prices", err)
}

const priceColumns = `id, provider, model, unit, price, charge, currency, valid_from, recorded_by, recorded_at`

// priceIsCurrent says of the row p whether it is the latest that has become valid.
const priceIsCurrent = `p.valid_from <= clock_timestamp() AND NOT EXISTS (
	SELECT FROM prices l WHERE l.provider = p.provider AND l.model = p.model AND l.unit = p.unit
	AND l.valid_from > p.valid_from AND l.valid_from <= clock_timestamp())`

func queryPrices(ctx context.Context, q querier, sql string, args ...any) ([]StoredPrice, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (p StoredPrice, err error) {
		err = row.Scan(&p.ID, &p.Provider, &p.Model, &p.Unit, &p.Price, &p.Charge, &p.Currency, &p.ValidFrom, &p.RecordedBy, &p.RecordedAt, &p.Current)
		p.ValidFrom, p.RecordedAt = p.ValidFrom.UTC(), p.RecordedAt.UTC()
		return p, err
	})
}
