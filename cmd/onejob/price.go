package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/postgres"
)

func newPrice() *cobra.Command {
	return newGroup("price", "Show and store what providers cost and owners pay", newPriceImport(), newPriceList())
}

func newPriceImport() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Store the prices of a file that differ from the stored ones, and print the new rows",
		Long: `Stores the prices of a file that differ from the stored ones, and prints the new rows.
The same file again stores nothing. The file is a list of prices as they stand under
prices in onejob.yaml:

  - {provider: primary, model: m-large, unit: input, price: 0.000002, charge: 0.000003, currency: USD}

Prices of onejob.yaml itself are stored by every worker when it starts.`,
		Args: cobra.ExactArgs(1),
	}
	who.addBy(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		prices, err := config.LoadPrices(args[0])
		if err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			stored, err := s.ImportPrices(cmd.Context(), who.by, prices)
			if err != nil {
				return err
			}
			return printPrices(cmd, output, stored)
		})
	}
	return cmd
}

func newPriceList() *cobra.Command {
	var provider string
	cmd := &cobra.Command{Use: "list", Short: "Print the stored prices, the newest of each unit first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&provider, "provider", "", "only of this provider")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			prices, err := s.Prices(cmd.Context(), provider)
			if err != nil {
				return err
			}
			return printPrices(cmd, output, prices)
		})
	}
	return cmd
}

func printPrices(cmd *cobra.Command, output *choice, prices []postgres.StoredPrice) error {
	return printAs(cmd, output, append([]postgres.StoredPrice{}, prices...), func(w io.Writer) { pricesTable(w, prices) })
}

// pricesTable writes prices with all their digits: a price is not an amount that somebody
// has or owes.
func pricesTable(w io.Writer, prices []postgres.StoredPrice) {
	rows := [][]string{{"PRICE", "PROVIDER", "MODEL", "UNIT", "COST", "CHARGE", "CURRENCY", "VALID FROM", "NOW", "BY"}}
	for _, p := range prices {
		rows = append(rows, []string{fmt.Sprint(p.ID), p.Provider, p.Model, p.Unit, p.Price.String(), p.Charge.String(), p.Currency,
			clock(p.ValidFrom), yes(p.Current), p.RecordedBy})
	}
	writeTable(w, rows...)
}
