package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// UsageFilter selects the usage of an owner.
type UsageFilter struct {
	Owner string
	First time.Time // the first day, by UTC; zero: from the beginning
	Last  time.Time // the last day; zero: to the end
	By    UsageBy
}

// UsageBy is how usage is broken down.
type UsageBy string

// The breakdowns, each a summary of its own.
const (
	UsageByDay   UsageBy = "day"
	UsageByModel UsageBy = "model"
	UsageByKind  UsageBy = "kind"
)

// UsageSums is what was used, and what of it was money. Tokens are those of the calls.
type UsageSums struct {
	Calls             int           `json:"calls"`
	Jobs              int           `json:"jobs"`
	InputTokens       int64         `json:"input_tokens"` // the cached ones among them
	CachedInputTokens int64         `json:"cached_input_tokens"`
	OutputTokens      int64         `json:"output_tokens"` // those of reasoning among them
	ReasoningTokens   int64         `json:"reasoning_tokens"`
	Cost              onejob.Amount `json:"cost"`
	Charged           onejob.Amount `json:"charged"`
	Credited          onejob.Amount `json:"credited"` // charges that were taken back
}

// UsageRow is a row of a summary. Of a breakdown over the whole window the day is empty.
type UsageRow struct {
	Day      string `json:"day,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Currency string `json:"currency"`
	UsageSums
}

// UsageTotal is the sum of a currency's rows beside what the ledger says.
type UsageTotal struct {
	Currency string `json:"currency"`
	UsageSums
	Ledger   UsageSums `json:"ledger"`
	Differs  bool      `json:"differs"`
	UnderWay int       `json:"under_way"` // entries that the summary does not have yet
}

// Usage is what the summary has, and what the ledger says of the same.
type Usage struct {
	Owner  string       `json:"owner"`
	By     UsageBy      `json:"by"`
	Rows   []UsageRow   `json:"rows"`
	Totals []UsageTotal `json:"totals"`
}

// usageReads are the summary, the columns of its rows (day, provider, model and kind), and
// what its rows are grouped by.
var usageReads = map[UsageBy]struct{ table, columns, group string }{
	UsageByDay:   {"usage_daily", `day::text, '', '', ''`, `day`},
	UsageByModel: {"usage_by_model", `'', provider, model, ''`, `provider, model`},
	UsageByKind:  {"usage_by_kind", `'', '', '', kind`, `kind`},
}

const usageInWindow = ` WHERE owner_id = $1 AND day BETWEEN $2::date AND $3::date `

// ReadUsage reads the summary and the ledger at one moment. The ledger decides: where they
// differ the summary waits for messages under way, or for a rebuild.
func (s *Store) ReadUsage(ctx context.Context, f UsageFilter) (usage Usage, err error) {
	usage = Usage{Owner: f.Owner, By: f.By}
	read := usageReads[f.By]
	args := []any{f.Owner, dayOr(f.First, "-infinity"), dayOr(f.Last, "infinity")}
	err = pgx.BeginTxFunc(ctx, s.pool, auditTx, func(tx pgx.Tx) error {
		usage.Rows, err = collect[UsageRow](ctx, tx, `SELECT `+read.columns+`, currency, `+measureSums+` FROM `+read.table+usageInWindow+
			`GROUP BY `+read.group+`, currency ORDER BY `+read.group+`, currency`, args...)
		if err == nil {
			usage.Totals, err = readTotals(ctx, tx, read.table, args...)
		}
		return err
	})
	return usage, translate("read the usage", err)
}

// readTotals puts the summary's total beside the ledger's, currency by currency.
func readTotals(ctx context.Context, tx pgx.Tx, summary string, args ...any) ([]UsageTotal, error) {
	kept, err := collect[currencySums](ctx, tx, `SELECT currency, `+measureSums+` FROM `+summary+usageInWindow+`GROUP BY currency`, args...)
	if err != nil {
		return nil, err
	}
	booked, err := collect[currencySums](ctx, tx, `SELECT currency, `+measureSums+` FROM usage_entries`+usageInWindow+`GROUP BY currency`, args...)
	if err != nil {
		return nil, err
	}
	waiting, err := collect[currencyCount](ctx, tx, `
		SELECT currency, count(*) FROM usage_entries e JOIN inbox i ON i.consumer_group = '`+summary+`' AND i.message_key = e.message_key
		WHERE e.owner_id = $1 AND day BETWEEN $2::date AND $3::date AND i.state <> 'done' GROUP BY currency`, args...)
	return mergeTotals(kept, booked, waiting), err
}

type currencySums struct {
	Currency string
	UsageSums
}

type currencyCount struct {
	Currency string
	Entries  int
}

func mergeTotals(kept, booked []currencySums, waiting []currencyCount) []UsageTotal {
	by := map[string]*UsageTotal{}
	total := func(currency string) *UsageTotal {
		if by[currency] == nil {
			by[currency] = &UsageTotal{Currency: currency}
		}
		return by[currency]
	}
	for _, k := range kept {
		total(k.Currency).UsageSums = k.UsageSums
	}
	for _, b := range booked {
		total(b.Currency).Ledger = b.UsageSums
	}
	for _, w := range waiting {
		total(w.Currency).UnderWay = w.Entries
	}
	totals := []UsageTotal{}
	for _, currency := range slices.Sorted(maps.Keys(by)) {
		t := *by[currency]
		t.Differs = !t.UsageSums.Equal(t.Ledger)
		totals = append(totals, t)
	}
	return totals
}

// Equal compares amounts by their value: 1.50 is 1.5.
func (u UsageSums) Equal(v UsageSums) bool {
	equal := u.Cost.Cmp(v.Cost) == 0 && u.Charged.Cmp(v.Charged) == 0 && u.Credited.Cmp(v.Credited) == 0
	v.Cost, v.Charged, v.Credited = u.Cost, u.Charged, u.Credited
	return equal && u == v
}

// collect returns the rows of the query, field by field in the order of its columns.
func collect[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
