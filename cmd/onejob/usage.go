package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func newUsage() *cobra.Command {
	var days dayFlags
	var owner string
	by := oneOf(string(postgres.UsageByDay), string(postgres.UsageByModel), string(postgres.UsageByKind))
	cmd := &cobra.Command{
		Use:   "usage --owner O",
		Short: "Print what an owner used, beside what the ledger says",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&owner, "owner", "", "whose usage")
	days.add(cmd)
	cmd.Flags().Var(by, "by", "day, model or kind")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner"); err != nil {
			return err
		}
		first, last, err := days.parse()
		if err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			usage, err := s.ReadUsage(cmd.Context(), postgres.UsageFilter{Owner: owner, First: first, Last: last, By: postgres.UsageBy(by.value)})
			if err != nil {
				return err
			}
			return printAs(cmd, output, usage, func(w io.Writer) { usageTable(w, usage) })
		})
	}
	cmd.AddCommand(newUsageRebuild())
	return cmd
}

// dayFlags bound a window of days.
type dayFlags struct{ from, to string }

func (f *dayFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from, "from", "", "only from this day on, by UTC, like 2026-11-30")
	cmd.Flags().StringVar(&f.to, "to", "", "only up to this day, which is included")
}

// parse returns the days; one that was not given is zero.
func (f *dayFlags) parse() (first, last time.Time, err error) {
	if first, err = parseDay("from", f.from); err == nil {
		last, err = parseDay("to", f.to)
	}
	if err == nil && !first.IsZero() && !last.IsZero() && last.Before(first) {
		err = usagef("--to %s is before --from %s", f.to, f.from)
	}
	return first, last, err
}

func parseDay(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return time.Time{}, usagef("--%s %q is not a day: write it like 2026-11-30", flag, text)
	}
	return day, nil
}

// usageTable rounds amounts, for display only; -o json has every digit.
func usageTable(w io.Writer, usage postgres.Usage) {
	rows := [][]string{{usageHeads[usage.By], "CALLS", "JOBS", "INPUT", "CACHED", "OUTPUT", "REASONING", "COST", "CHARGED", "CREDITED"}}
	for _, r := range usage.Rows {
		rows = append(rows, usageCells(usageName(usage.By, r), r.Currency, r.UsageSums))
	}
	for _, total := range usage.Totals {
		rows = append(rows, usageCells("total", total.Currency, total.UsageSums), usageCells("ledger", total.Currency, total.Ledger))
	}
	writeTable(w, rows...)
	for _, total := range usage.Totals {
		if total.Differs {
			fmt.Fprintf(w, "\nThe total in %s differs from the ledger, which decides: %d entries are under way. 'onejob audit' says where, 'onejob usage rebuild' mends it.\n", total.Currency, total.UnderWay)
		}
	}
}

var usageHeads = map[postgres.UsageBy]string{postgres.UsageByDay: "DAY", postgres.UsageByModel: "MODEL", postgres.UsageByKind: "KIND"}

func usageName(by postgres.UsageBy, r postgres.UsageRow) string {
	switch by {
	case postgres.UsageByModel:
		return r.Provider + "/" + r.Model
	case postgres.UsageByKind:
		return r.Kind
	}
	return r.Day
}

func usageCells(name, currency string, u postgres.UsageSums) []string {
	cells := []string{name}
	for _, n := range []int64{int64(u.Calls), int64(u.Jobs), u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.ReasoningTokens} {
		cells = append(cells, fmt.Sprint(n))
	}
	for _, amount := range []onejob.Amount{u.Cost, u.Charged, u.Credited} {
		cells = append(cells, amount.Display(currency))
	}
	return cells
}

func newUsageRebuild() *cobra.Command {
	var days dayFlags
	var owner string
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Compute the summaries of a window anew from the ledger, beside whatever runs",
		Args:  cobra.NoArgs,
	}
	days.add(cmd)
	cmd.Flags().Lookup("from").Usage = "first day, by UTC, like 2026-11-30 (default yesterday)"
	cmd.Flags().Lookup("to").Usage = "last day, which is included (default today)"
	cmd.Flags().StringVar(&owner, "owner", "", "only of this owner")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		first, last, err := days.parse()
		if err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			rebuilt, err := rebuildUsage(cmd, s, first, last, owner)
			if err != nil {
				return err
			}
			return printAs(cmd, output, rebuilt, rebuilt.table)
		})
	}
	return cmd
}

// rebuiltUsage is what a rebuild covered.
type rebuiltUsage struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Owner   string `json:"owner"` // empty: all
	Entries int    `json:"entries"`
}

func (r rebuiltUsage) table(w io.Writer) {
	writeTable(w, []string{"from", r.From}, []string{"to", r.To}, []string{"owner", r.Owner}, []string{"entries", fmt.Sprint(r.Entries)})
}

// rebuildUsage rebuilds the window and tells each day on standard error.
func rebuildUsage(cmd *cobra.Command, s *postgres.Store, first, last time.Time, owner string) (rebuiltUsage, error) {
	today, err := s.Today(cmd.Context())
	if err != nil {
		return rebuiltUsage{}, err
	}
	if last.IsZero() {
		last = today
	}
	if first.IsZero() {
		first = today.AddDate(0, 0, -1)
	}
	if last.Before(first) {
		return rebuiltUsage{}, usagef("the window ends on %s and begins on %s: give --from and --to", last.Format(time.DateOnly), first.Format(time.DateOnly))
	}
	rebuilt := rebuiltUsage{From: first.Format(time.DateOnly), To: last.Format(time.DateOnly), Owner: owner}
	err = s.RebuildUsage(cmd.Context(), first, last, owner, func(day time.Time, entries int) {
		rebuilt.Entries += entries
		fmt.Fprintf(cmd.ErrOrStderr(), "onejob: rebuilt %s: %d entries\n", day.Format(time.DateOnly), entries)
	})
	return rebuilt, err
}
