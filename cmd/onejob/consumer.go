package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

func newConsumer() *cobra.Command {
	return newGroup("consumer", "Read which groups hear messages and how far behind they are, and end a group",
		newConsumerList(), newConsumerRemove())
}

// consumerGroup is a group as it is printed.
type consumerGroup struct {
	messages.Backlog
	OldestSeconds int64 `json:"oldest_seconds"`
}

func newConsumerList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Print the groups, what they hear and what they have still to do", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			backlogs, err := s.Backlogs(cmd.Context())
			if err != nil {
				return err
			}
			groups := make([]consumerGroup, len(backlogs))
			for i, b := range backlogs {
				groups[i] = consumerGroup{b, int64(b.Oldest.Seconds())}
			}
			return printAs(cmd, output, groups, func(w io.Writer) { consumersTable(w, groups) })
		})
	}
	return cmd
}

func consumersTable(w io.Writer, groups []consumerGroup) {
	rows := [][]string{{"GROUP", "PENDING", "OLDEST", "DEAD", "TOPICS"}}
	for _, g := range groups {
		rows = append(rows, []string{g.Group, fmt.Sprint(g.Pending), g.Oldest.Round(time.Second).String(), fmt.Sprint(g.Dead), strings.Join(g.Topics, ", ")})
	}
	writeTable(w, rows...)
}

func newConsumerRemove() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "remove GROUP --reason R",
		Short: "End what a group hears, and give up what it has not done",
		Long: `Ends the group's subscriptions and gives up its pending messages and its dead
letters. Take the consumer out of the program first: a worker that has it
subscribes it again when it starts.`,
		Args: cobra.ExactArgs(1),
	}
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if who.reason == "" {
			return usageError{errNoReason}
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			n, err := s.Unsubscribe(cmd.Context(), args[0], who.by, who.reason)
			if err != nil {
				return err
			}
			return printAs(cmd, output, map[string]any{"group": args[0], "discarded": n}, func(w io.Writer) {
				writeTable(w, []string{"removed", args[0]}, []string{"discarded", fmt.Sprint(n)})
			})
		})
	}
	return cmd
}
