package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/postgres"
)

func newBalance() *cobra.Command {
	var owner string
	cmd := &cobra.Command{Use: "balance --owner O", Short: "Print what an owner has, by the ledger; below zero: owes", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&owner, "owner", "", "whose balance")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner"); err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			balances, err := s.Balances(cmd.Context(), owner)
			if err != nil {
				return err
			}
			return printAs(cmd, output, balances, func(w io.Writer) { balancesTable(w, balances) })
		})
	}
	return cmd
}

func balancesTable(w io.Writer, balances []postgres.Balance) {
	rows := [][]string{{"OWNER", "BALANCE"}}
	for _, b := range balances {
		rows = append(rows, []string{b.Owner, b.Balance.Display(b.Currency)})
	}
	writeTable(w, rows...)
}
