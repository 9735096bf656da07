package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func newBudget() *cobra.Command {
	return newGroup("budget", "Limit what an owner may spend in a month", newBudgetSet(), newBudgetGet())
}

func newBudgetSet() *cobra.Command {
	var c postgres.BudgetChange
	var limit string
	cmd := &cobra.Command{
		Use:   "set --owner O --limit 100 --currency USD",
		Short: "Set an owner's limit for a month and those after it, up to the next that has its own",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Owner, "owner", "", "whose budget")
	flags.StringVar(&limit, "limit", "", "how much may be charged in a month, or none")
	flags.StringVar(&c.Currency, "currency", "", "of ISO 4217, like USD (default that of the budget before)")
	addMonth(cmd, &c.Month)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := requireFlags(cmd, "owner", "limit"); err != nil {
			return err
		}
		if c.Limit, err = limitOf(limit); err != nil {
			return err
		}
		return useBudget(cmd, output, func(s *postgres.Store) (postgres.Budget, error) {
			b, err := s.SetBudget(cmd.Context(), c)
			if err == nil && b.Left != nil && b.Left.Sign() < 0 {
				slog.Warn("the limit is below what is spent and reserved: new jobs are refused", "month", b.Month, "spent", b.Spent, "reserved", b.Reserved)
			}
			return b, err
		})
	}
	return cmd
}

// limitOf reads a limit; nil stands for none.
func limitOf(text string) (*onejob.Amount, error) {
	if text == "none" {
		return nil, nil
	}
	limit, err := onejob.ParseAmount(text)
	if err != nil {
		return nil, usagef("--limit: %w, or none", err)
	}
	return &limit, nil
}

func addMonth(cmd *cobra.Command, month *string) {
	cmd.Flags().StringVar(month, "month", "", "by UTC, like 2026-11 (default the current one)")
}

func newBudgetGet() *cobra.Command {
	var owner, month string
	cmd := &cobra.Command{Use: "get --owner O", Short: "Print an owner's limit, and what is reserved, spent and left of it", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&owner, "owner", "", "whose budget")
	addMonth(cmd, &month)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner"); err != nil {
			return err
		}
		return useBudget(cmd, output, func(s *postgres.Store) (postgres.Budget, error) {
			return s.Budget(cmd.Context(), owner, month)
		})
	}
	return cmd
}

// useBudget prints the budget that use returns.
func useBudget(cmd *cobra.Command, output *choice, use func(*postgres.Store) (postgres.Budget, error)) error {
	return useStore(cmd.Context(), func(s *postgres.Store) error {
		b, err := use(s)
		if err != nil {
			return err
		}
		return printAs(cmd, output, b, func(w io.Writer) { budgetTable(w, b) })
	})
}

func budgetTable(w io.Writer, b postgres.Budget) {
	shown := func(a *onejob.Amount) string {
		if a == nil {
			return "none"
		}
		return a.Display(b.Currency)
	}
	rows := [][]string{{"owner", b.Owner}, {"month", b.Month}, {"limit", shown(b.Limit)}, {"reserved", shown(&b.Reserved)}, {"spent", shown(&b.Spent)}}
	if b.Left != nil {
		rows = append(rows, []string{"left", shown(b.Left)})
	}
	writeTable(w, rows...)
}
