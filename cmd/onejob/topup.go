package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/postgres"
)

func newTopup() *cobra.Command {
	return newDeposit("topup", "Book money that an owner paid in")
}

func newCredit() *cobra.Command {
	return newDeposit("credit", "Book money that an owner is given; 'onejob ledger reverse' takes a charge back")
}

func newDeposit(kind, short string) *cobra.Command {
	d := postgres.Deposit{Kind: kind}
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   kind + " --owner O --amount 12.50 --currency USD --key K",
		Short: short,
		Long:  short + ".\nThe same key again is the same entry, with another amount a conflict.",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&d.Owner, "owner", "", "whose money it is")
	flags.TextVar(&d.Amount, "amount", d.Amount, "how much, above zero")
	flags.StringVar(&d.Currency, "currency", "", "of ISO 4217, like USD")
	flags.StringVar(&d.Key, "key", "", "idempotency key of this one "+kind+", a payment's number for instance")
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner", "amount", "currency", "key"); err != nil {
			return err
		}
		d.By, d.Reason = who.by, who.reason
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			booked, err := s.BookDepositOnce(cmd.Context(), d)
			if err != nil {
				return err
			}
			return printBooked(cmd, output, booked)
		})
	}
	return cmd
}

func printBooked(cmd *cobra.Command, output *choice, b postgres.Booked) error {
	return printAs(cmd, output, b, func(w io.Writer) { entriesTable(w, b.LedgerEntry) })
}
