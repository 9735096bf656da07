package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/postgres"
)

func newWebhookDeliveries() *cobra.Command {
	f := postgres.DeliveryFilter{Limit: 100}
	state := &choice{words: []string{string(postgres.DeliveryPending), string(postgres.DeliveryDone), string(postgres.DeliveryDead)}}
	cmd := &cobra.Command{Use: "deliveries", Short: "Print what was told and what is to be told, the newest first", Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVar(&f.Owner, "owner", "", "only this owner's")
	flags.Var(state, "state", "only in this state")
	flags.IntVar(&f.Limit, "limit", f.Limit, "how many at most")
	flags.Int64Var(&f.Before, "before", 0, "the page after the one that ended with this delivery")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 {
			return usagef("--limit %d is out of range: use 1 or more", f.Limit)
		}
		f.State = postgres.DeliveryState(state.value)
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			deliveries, err := s.Deliveries(cmd.Context(), f)
			if err != nil {
				return err
			}
			return printAs(cmd, output, deliveries, func(w io.Writer) { deliveriesTable(w, deliveries...) })
		})
	}
	return cmd
}

func newWebhookRedeliver() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redeliver DELIVERY",
		Short: "Send a delivery again, whatever became of it; its tries are counted anew",
		Args:  cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return usagef("delivery %q is not a number: use one as 'onejob webhook deliveries' prints them", args[0])
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			d, err := s.RedeliverIfEndpointEnabled(cmd.Context(), id)
			if err != nil {
				return err
			}
			return printAs(cmd, output, d, func(w io.Writer) { deliveriesTable(w, d) })
		})
	}
	return cmd
}

func deliveriesTable(w io.Writer, deliveries ...postgres.Delivery) {
	rows := [][]string{{"DELIVERY", "OWNER", "MESSAGE", "URL", "STATE", "TRIES", "STATUS", "NEXT TRY", "DONE", "ERROR"}}
	for _, d := range deliveries {
		status := ""
		if d.LastStatus > 0 {
			status = fmt.Sprint(d.LastStatus)
		}
		rows = append(rows, []string{fmt.Sprint(d.ID), d.Owner, d.MessageKey, d.URL, string(d.State), fmt.Sprint(d.Tries),
			status, clock(d.NextTryAt), clock(d.DoneAt), d.LastError})
	}
	writeTable(w, rows...)
}
