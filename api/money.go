package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func (d *Door) addMoney() {
	add(d, route{
		method: http.MethodGet, path: "/v1/usage", id: "read-usage", tag: "Money", summary: "Read what was used",
		description: "The summary by day, model or kind, and beside its total what the ledger says. Where the two differ the ledger is right, and the summary waits for messages under way. " +
			"Of 366 days at most: without `from`, of the last ones up to `to`.",
	}, d.usage)
	add(d, route{
		method: http.MethodGet, path: "/v1/balance", id: "read-balance", tag: "Money", summary: "Read the balance",
		description: "What the owner has, or owes if it is below zero, by currency: the sum over the ledger. With it the budget of this month.",
	}, d.balance)
	add(d, route{
		method: http.MethodGet, path: "/v1/ledger", id: "list-ledger", tag: "Money", summary: "List the ledger", description: "The newest entry first.",
	}, d.ledger)
}

// Window is whose things are asked for, and of which days. It is exported as [JobPath] is.
type Window struct {
	Owner string `query:"owner" doc:"Whose; for operators. Default: the token's."`
	From  string `query:"from" doc:"The first day, by UTC, like 2026-11-01."`
	To    string `query:"to" doc:"The last day, which is included."`
}

// window returns whose things are asked for, and of which days.
func (in Window) window(p Principal) (owner string, first, last time.Time, err error) {
	if owner, err = ownerToRead(p, in.Owner); err != nil {
		return "", first, last, err
	}
	if first, err = readDay("from", in.From); err != nil {
		return "", first, last, err
	}
	last, err = readDay("to", in.To)
	return owner, first, last, err
}

func readDay(name, text string) (day time.Time, err error) {
	if text == "" {
		return day, nil
	}
	if day, err = time.Parse(time.DateOnly, text); err != nil {
		return day, newProblem(invalidRequest, "%s %q is no day: write it like 2026-11-01", name, onejob.Shorten(text, 40))
	}
	return day, nil
}

// mostDays is how many days one reading of the usage covers.
const mostDays = 366

// bounded returns the first of the days, which are not too many.
func bounded(first, last, today time.Time) (time.Time, error) {
	end := last
	if end.IsZero() || end.After(today) {
		end = today
	}
	earliest := end.AddDate(0, 0, 1-mostDays)
	if first.IsZero() {
		return earliest, nil
	}
	if first.Before(earliest) {
		return first, newProblem(invalidRequest, "from %s to %s are more than %d days: ask for fewer at a time, by from and to", first.Format(time.DateOnly), end.Format(time.DateOnly), mostDays)
	}
	return first, nil
}

type usageInput struct {
	Window
	By string `query:"by" enum:"day,model,kind" default:"day" doc:"What the rows are of."`
}

type usageOutput struct{ Body postgres.Usage }

func (d *Door) usage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	owner, first, last, err := in.window(principalOf(ctx))
	if err != nil {
		return nil, err
	}
	if first, err = bounded(first, last, time.Now().UTC().Truncate(24*time.Hour)); err != nil {
		return nil, err
	}
	usage, err := d.options.Store.ReadUsage(ctx, postgres.UsageFilter{Owner: owner, First: first, Last: last, By: postgres.UsageBy(in.By)})
	if usage.Rows == nil {
		usage.Rows = []postgres.UsageRow{}
	}
	return &usageOutput{usage}, err
}

type ownerInput struct {
	Owner string `query:"owner" doc:"Whose; for operators. Default: the token's."`
}

type account struct {
	Owner    string             `json:"owner"`
	Balances []postgres.Balance `json:"balances" doc:"One for each currency that the owner ever had entries in."`
	Budget   *postgres.Budget   `json:"budget" doc:"Of this month, by UTC; null: nothing limits what the owner spends."`
}

type accountOutput struct{ Body account }

func (d *Door) balance(ctx context.Context, in *ownerInput) (*accountOutput, error) {
	owner, err := ownerToRead(principalOf(ctx), in.Owner)
	if err != nil {
		return nil, err
	}
	balances, err := d.options.Store.Balances(ctx, owner)
	if err != nil {
		return nil, err
	}
	out := &accountOutput{account{Owner: owner, Balances: append([]postgres.Balance{}, balances...)}}
	budget, err := d.options.Store.Budget(ctx, owner, "")
	if errors.Is(err, onejob.ErrNotFound) {
		return out, nil
	}
	out.Body.Budget = &budget
	return out, err
}

type ledgerInput struct {
	Window
	Kind   string `query:"kind" enum:"charge,cost,credit,topup"`
	Cursor int64  `query:"cursor" minimum:"1" doc:"The member next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type ledgerPage struct {
	Entries []postgres.LedgerEntry `json:"entries"`
	Next    string                 `json:"next,omitempty" doc:"The cursor of the next page; absent: there is none."`
}

type ledgerOutput struct{ Body ledgerPage }

func (d *Door) ledger(ctx context.Context, in *ledgerInput) (*ledgerOutput, error) {
	owner, first, last, err := in.window(principalOf(ctx))
	if err != nil {
		return nil, err
	}
	entries, err := d.options.Store.LedgerEntries(ctx, postgres.LedgerFilter{
		Owner: owner, First: first, Last: last, Kind: in.Kind, Before: in.Cursor, Limit: in.Limit + 1,
	})
	out := &ledgerOutput{ledgerPage{Entries: append([]postgres.LedgerEntry{}, entries...)}}
	if len(entries) > in.Limit {
		out.Body.Entries = out.Body.Entries[:in.Limit]
		out.Body.Next = strconv.FormatInt(entries[in.Limit-1].ID, 10)
	}
	return out, err
}
