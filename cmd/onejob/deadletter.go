package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

func newDeadLetter() *cobra.Command {
	return newGroup("deadletter", "Read the messages whose tries are used up, and try them anew or give them up",
		newDeadLetterList(), newDeadLetterShow(), newDeadLetterRedrive(), newDeadLetterDiscard())
}

func newDeadLetterList() *cobra.Command {
	var group string
	var limit int
	cmd := &cobra.Command{Use: "list", Short: "Print dead letters, by group and key", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&group, "group", "", "only this consumer group's")
	cmd.Flags().IntVar(&limit, "limit", 100, "how many at most")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return usagef("--limit %d is out of range: use 1 or more", limit)
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			letters, err := s.DeadLetters(cmd.Context(), group, limit)
			if err != nil {
				return err
			}
			return printAs(cmd, output, letters, func(w io.Writer) { deadLettersTable(w, letters) })
		})
	}
	return cmd
}

func deadLettersTable(w io.Writer, letters []messages.DeadLetter) {
	rows := [][]string{{"GROUP", "KEY", "OWNER", "TRIES", "CREATED", "LAST ERROR"}}
	for _, d := range letters {
		rows = append(rows, []string{d.Group, d.Key, d.Owner, fmt.Sprint(d.Tries), clock(d.CreatedAt), onejob.Shorten(d.LastError, 100)})
	}
	writeTable(w, rows...)
}

func newDeadLetterShow() *cobra.Command {
	cmd := &cobra.Command{Use: "show GROUP KEY", Short: "Print a dead letter with its payload and what failed", Args: cobra.ExactArgs(2)}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			d, err := s.DeadLetter(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return printAs(cmd, output, d, func(w io.Writer) { deadLetterTable(w, d) })
		})
	}
	return cmd
}

func deadLetterTable(w io.Writer, d messages.DeadLetter) {
	writeTable(w, [][]string{
		{"group", d.Group}, {"key", d.Key}, {"owner", d.Owner}, {"topic", d.Topic}, {"tries", fmt.Sprint(d.Tries)},
		{"created", clock(d.CreatedAt)}, {"payload", string(d.Payload)}, {"last error", d.LastError},
	}...)
}

func newDeadLetterRedrive() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "redrive GROUP KEY|--all",
		Short: "Make dead letters new to their group: it tries them as if for the first time",
		Args:  cobra.RangeArgs(1, 2),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters of the group")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all == (len(args) == 2) {
			return usagef("name the key of one dead letter, or give --all")
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			n, err := redriveDeadLetters(cmd, s, args)
			if err != nil {
				return err
			}
			return printAs(cmd, output, map[string]any{"group": args[0], "redriven": n}, func(w io.Writer) {
				writeTable(w, []string{"redriven", fmt.Sprint(n)})
			})
		})
	}
	return cmd
}

// redriveDeadLetters redrives the group's dead letter, or without a key all of them.
func redriveDeadLetters(cmd *cobra.Command, s *postgres.Store, args []string) (int, error) {
	if len(args) == 2 {
		return 1, s.RedriveIfDead(cmd.Context(), args[0], args[1])
	}
	n, err := s.RedriveAll(cmd.Context(), args[0])
	if err == nil && n == 0 {
		return 0, onejob.Errorf(onejob.CodeNotFound, "group %s has no dead letter: see 'onejob deadletter list'", args[0])
	}
	return n, err
}

func newDeadLetterDiscard() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "discard GROUP KEY --reason R",
		Short: "Give a dead letter up: the group never applies it",
		Args:  cobra.ExactArgs(2),
	}
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if who.reason == "" {
			return usageError{errNoReason}
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			if err := s.DiscardIfDead(cmd.Context(), args[0], args[1], who.by, who.reason); err != nil {
				return err
			}
			return printAs(cmd, output, map[string]any{"group": args[0], "key": args[1], "discarded": true}, func(w io.Writer) {
				writeTable(w, []string{"discarded", args[1]})
			})
		})
	}
	return cmd
}
