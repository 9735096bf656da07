package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func newLedger() *cobra.Command {
	var f postgres.LedgerFilter
	var days dayFlags
	cmd := &cobra.Command{Use: "ledger --owner O", Short: "Print an owner's ledger, the newest entry first", Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVar(&f.Owner, "owner", "", "whose ledger")
	days.add(cmd)
	flags.StringVar(&f.Kind, "kind", "", "only "+strings.Join(entryKinds, ", "))
	flags.IntVar(&f.Limit, "limit", 100, "how many at most")
	flags.Int64Var(&f.Before, "before", 0, "the page after the one that ended with this entry")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := checkLedgerFilter(cmd, f); err != nil {
			return err
		}
		if f.First, f.Last, err = days.parse(); err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			entries, err := s.LedgerEntries(cmd.Context(), f)
			if err != nil {
				return err
			}
			return printAs(cmd, output, entries, func(w io.Writer) { entriesTable(w, entries...) })
		})
	}
	cmd.AddCommand(newLedgerReverse(), newLedgerCheck())
	return cmd
}

var entryKinds = []string{"charge", "cost", "credit", "topup"}

func checkLedgerFilter(cmd *cobra.Command, f postgres.LedgerFilter) error {
	if err := requireFlags(cmd, "owner"); err != nil {
		return err
	}
	switch {
	case f.Kind != "" && !slices.Contains(entryKinds, f.Kind):
		return usagef("--kind %q is none: use one of %s", f.Kind, strings.Join(entryKinds, ", "))
	case f.Limit < 1:
		return usagef("--limit %d is out of range: use 1 or more", f.Limit)
	case f.Before < 0:
		return usagef("--before %d is no entry: use the last one of the page before", f.Before)
	}
	return nil
}

// entriesTable rounds amounts, for display only; -o json has every digit.
func entriesTable(w io.Writer, entries ...postgres.LedgerEntry) {
	rows := [][]string{{"ENTRY", "CREATED", "KIND", "AMOUNT", "FROM", "TO", "JOB", "ATTEMPT", "NOTE", "REASON", "BY"}}
	for _, e := range entries {
		attempt := ""
		if e.Attempt > 0 {
			attempt = fmt.Sprint(e.Attempt)
		}
		rows = append(rows, []string{fmt.Sprint(e.ID), clock(e.CreatedAt), e.Kind, e.Amount.Display(e.Currency), e.FromAccount, e.ToAccount,
			e.JobID, attempt, strings.Join(entryNotes(e), ", "), e.Reason, e.RecordedBy})
	}
	writeTable(w, rows...)
}

func entryNotes(e postgres.LedgerEntry) (notes []string) {
	if e.Corrects > 0 {
		notes = append(notes, fmt.Sprintf("takes back %d", e.Corrects))
	}
	if e.CorrectedBy > 0 {
		notes = append(notes, fmt.Sprintf("taken back by %d", e.CorrectedBy))
	}
	if e.Unpriced {
		notes = append(notes, "unpriced")
	}
	if e.Estimated {
		notes = append(notes, "estimated")
	}
	return notes
}

func newLedgerReverse() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "reverse ENTRY --reason R",
		Short: "Take back an entry by a new one: a charge by a credit, any other by its own kind below zero; once",
		Args:  cobra.ExactArgs(1),
	}
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return usagef("entry %q is not a number: use one that 'onejob ledger --owner O' prints", args[0])
		}
		if who.reason == "" {
			return usageError{errNoReason}
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			booked, err := s.ReverseEntryOnce(cmd.Context(), id, who.by, who.reason)
			if err != nil {
				return err
			}
			return printBooked(cmd, output, booked)
		})
	}
	return cmd
}

func newLedgerCheck() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Add up all accounts, which must come to zero in each currency; exit 1 if not", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			sums, err := s.SumLedger(cmd.Context())
			if err != nil {
				return err
			}
			if err := printAs(cmd, output, sums, func(w io.Writer) { sumsTable(w, sums) }); err != nil {
				return err
			}
			return unbalanced(sums)
		})
	}
	return cmd
}

func sumsTable(w io.Writer, sums []postgres.LedgerSum) {
	rows := [][]string{{"CURRENCY", "ACCOUNTS", "SUM"}}
	for _, s := range sums {
		rows = append(rows, []string{s.Currency, fmt.Sprint(s.Accounts), s.Sum.String()})
	}
	writeTable(w, rows...)
}

// unbalanced returns an error if a sum is not zero.
func unbalanced(sums []postgres.LedgerSum) error {
	var wrong []string
	for _, s := range sums {
		if s.Sum.Sign() != 0 {
			wrong = append(wrong, fmt.Sprintf("%s %s", s.Sum, s.Currency))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return onejob.Errorf("", "the accounts add up to %s and not to zero: a hand has changed the table ledger, compare it with a backup", strings.Join(wrong, ", "))
}
