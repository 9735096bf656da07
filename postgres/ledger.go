package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// LedgerEntry is a movement of money: its amount went from one account to the other.
type LedgerEntry struct {
	ID          int64           `json:"id"`
	Source      string          `json:"source"` // what made it; the key of its message
	Owner       string          `json:"owner"`
	Kind        string          `json:"kind"`
	Amount      onejob.Amount   `json:"amount"`
	Currency    string          `json:"currency"`
	FromAccount string          `json:"from_account"`
	ToAccount   string          `json:"to_account"`
	JobID       string          `json:"job_id"`  // empty: of no job
	Attempt     int             `json:"attempt"` // its number, 0: of none
	Provider    string          `json:"provider"`
	Model       string          `json:"model"`
	Usage       json.RawMessage `json:"usage"`        // null: of no call
	Prices      json.RawMessage `json:"prices"`       // the snapshot: id, unit, quantity, price and charge of each line
	Estimated   bool            `json:"estimated"`    // the provider told no usage
	Unpriced    bool            `json:"unpriced"`     // some of the usage had no price
	Corrects    int64           `json:"corrects"`     // the entry that it takes back, 0: none
	CorrectedBy int64           `json:"corrected_by"` // the entry that takes it back, 0: none
	Reason      string          `json:"reason"`
	RecordedBy  string          `json:"recorded_by"`
	CreatedAt   time.Time       `json:"created_at"`
}

// Booked is an entry that somebody asked for.
type Booked struct {
	LedgerEntry
	Created bool `json:"created"` // by this call; false: it was there
}

// Deposit is money for an owner that no job made.
type Deposit struct {
	Kind     string // topup or credit
	Owner    string
	Key      string // the idempotency key of this one deposit
	Amount   onejob.Amount
	Currency string
	Reason   string // optional
	By       string
}

func (d Deposit) check() error {
	return cmp.Or(onejob.CheckIdentity(d.Owner, d.Key), checkMoney(d.Amount, d.Currency), onejob.CheckSaid(d.By, d.Reason))
}

// checkMoney returns an [onejob.ErrInvalidRequest] unless the amount is above zero and of
// a currency.
func checkMoney(amount onejob.Amount, currency string) error {
	if amount.Sign() <= 0 {
		return onejob.Errorf(onejob.CodeInvalidRequest, "amount %s is not above zero: give what is to be moved", amount)
	}
	return cmp.Or(amount.Check(), onejob.CheckCurrency(currency))
}

// BookDepositOnce books the deposit and its message, unless its key has an entry already:
// that is returned then. It fails with [onejob.ErrConflict] if that entry is about another
// amount, and with [onejob.ErrInvalidRequest].
func (s *Store) BookDepositOnce(ctx context.Context, d Deposit) (b Booked, err error) {
	if err := d.check(); err != nil {
		return b, err
	}
	source := onejob.EntrySource("ledger."+d.Kind, d.Owner, d.Key)
	err = s.inTx(ctx, "book the "+d.Kind, func(tx pgx.Tx) error {
		b, err = bookOnce(ctx, tx, `l.source = $1`, source, `
			INSERT INTO ledger (source, owner_id, kind, amount, currency, reason, recorded_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (source) DO NOTHING`,
			source, d.Owner, d.Kind, d.Amount, d.Currency, nullable(d.Reason), d.By)
		if err == nil && (b.Amount.Cmp(d.Amount) != 0 || b.Currency != d.Currency) {
			return onejob.Errorf(onejob.CodeConflict, "key %q of owner %q belongs to entry %d of %s %s: use a new key for a new %s",
				d.Key, d.Owner, b.ID, b.Amount, b.Currency, d.Kind)
		}
		return err
	})
	return b, err
}

// bookOnce runs the insert of one entry, tells it by a message if a row was inserted, and
// returns the entry that the condition names.
func bookOnce(ctx context.Context, tx pgx.Tx, condition string, named any, insert string, args ...any) (b Booked, err error) {
	tag, err := tx.Exec(ctx, insert, args...)
	if err != nil {
		return b, err
	}
	rows, err := tx.Query(ctx, selectEntries+` WHERE `+condition, named)
	if err != nil {
		return b, err
	}
	b.Created = tag.RowsAffected() == 1
	if b.LedgerEntry, err = pgx.CollectExactlyOneRow(rows, scanEntry); err == nil && b.Created {
		err = tellEntry(ctx, tx, b.ID)
	}
	return b, err
}

// tellEntry writes the entry's message.
func tellEntry(ctx context.Context, tx pgx.Tx, id int64) error {
	_, err := tx.Exec(ctx, `WITH entry AS (SELECT * FROM ledger WHERE id = $1)`+entryTold, id)
	return err
}

// ReverseEntryOnce takes back the whole of an entry by a new one that names it: a charge by
// a credit, anything else by its own kind with the amount below zero. A second reversal
// returns the first. It fails with [onejob.ErrNotFound], and with
// [onejob.ErrInvalidRequest] for an entry that is itself a reversal.
func (s *Store) ReverseEntryOnce(ctx context.Context, id int64, by, reason string) (b Booked, err error) {
	if err := onejob.CheckSaid(by, reason); err != nil {
		return b, err
	}
	err = s.inTx(ctx, "reverse the entry", func(tx pgx.Tx) error {
		b, err = bookOnce(ctx, tx, `l.corrects = $1`, id, `
			INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices,
			                    estimated, unpriced, corrects, reason, recorded_by, certification_call)
			SELECT 'ledger.reversal:' || id, owner_id,
			       CASE kind WHEN 'charge' THEN 'credit' ELSE kind END, CASE kind WHEN 'charge' THEN amount ELSE -amount END, currency,
			       job_id, attempt_id, provider, model, usage, prices, estimated, unpriced, id, $2, $3, certification_call
			FROM ledger WHERE id = $1 AND corrects IS NULL ON CONFLICT DO NOTHING`,
			id, nullable(reason), by)
		if errors.Is(err, pgx.ErrNoRows) {
			return notReversible(ctx, tx, id)
		}
		return err
	})
	return b, err
}

// notReversible says why an entry that has no reversal gets none.
func notReversible(ctx context.Context, tx pgx.Tx, id int64) error {
	var corrects int64
	if err := tx.QueryRow(ctx, `SELECT coalesce(corrects, 0) FROM ledger WHERE id = $1`, id).Scan(&corrects); err != nil {
		return orNotFound(err, "ledger entry %d does not exist: 'onejob ledger --owner O' lists them", id)
	}
	return onejob.Errorf(onejob.CodeInvalidRequest, "ledger entry %d takes back entry %d and cannot be reversed: 'onejob credit' or 'onejob topup' give the owner what is owed", id, corrects)
}

// LedgerFilter selects entries of an owner. A zero field beside the owner selects all.
type LedgerFilter struct {
	Owner  string
	First  time.Time // the day from which on, by UTC
	Last   time.Time // the day up to which, which is included
	Kind   string
	Before int64 // id of the last entry of the page before
	Limit  int   // rows at most; 0: 100
}

// LedgerEntries returns the selected entries, the newest first.
func (s *Store) LedgerEntries(ctx context.Context, f LedgerFilter) ([]LedgerEntry, error) {
	rows, err := s.pool.Query(ctx, selectEntries+`
		WHERE l.owner_id = $1 AND ($2::date IS NULL OR l.day >= $2) AND ($3::date IS NULL OR l.day <= $3)
		  AND ($4 = '' OR l.kind = $4) AND ($5 = 0 OR l.id < $5) ORDER BY l.id DESC LIMIT $6`,
		f.Owner, nullable(f.First), nullable(f.Last), f.Kind, f.Before, cmp.Or(f.Limit, 100))
	if err != nil {
		return nil, translate("list the ledger", err)
	}
	entries, err := pgx.CollectRows(rows, scanEntry)
	return entries, translate("list the ledger", err)
}

const selectEntries = `
	SELECT l.id, l.source, l.owner_id, l.kind, l.amount, l.currency, l.from_account, l.to_account,
	       coalesce(l.job_id::text, ''), coalesce(a.number, 0), coalesce(l.provider, ''), coalesce(l.model, ''),
	       l.usage, l.prices, l.estimated, l.unpriced, coalesce(l.corrects, 0), coalesce(c.id, 0),
	       coalesce(l.reason, ''), l.recorded_by, l.created_at
	FROM ledger l LEFT JOIN attempts a ON a.id = l.attempt_id LEFT JOIN ledger c ON c.corrects = l.id`

func scanEntry(row pgx.CollectableRow) (e LedgerEntry, err error) {
	var usage, prices []byte
	err = row.Scan(&e.ID, &e.Source, &e.Owner, &e.Kind, &e.Amount, &e.Currency, &e.FromAccount, &e.ToAccount,
		&e.JobID, &e.Attempt, &e.Provider, &e.Model, &usage, &prices, &e.Estimated, &e.Unpriced, &e.Corrects, &e.CorrectedBy,
		&e.Reason, &e.RecordedBy, &e.CreatedAt)
	e.Usage, e.Prices, e.CreatedAt = usage, prices, e.CreatedAt.UTC()
	return e, err
}
