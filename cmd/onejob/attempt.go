package main

import (
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/starter"
)

func newAttempt() *cobra.Command {
	return newGroup("attempt", "Read the attempts of a job and end unknown ones", newAttemptList(), newAttemptCancel(), newAttemptResolve())
}

func newAttemptList() *cobra.Command {
	cmd := &cobra.Command{Use: "list JOB", Short: "Print the attempts of a job", Args: cobra.ExactArgs(1)}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return useStarter(cmd.Context(), func(s *starter.Starter) error {
			d, err := s.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return printAs(cmd, output, d.Attempts, func(w io.Writer) { attemptsTable(w, d.Attempts) })
		})
	}
	return cmd
}

func newAttemptCancel() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "cancel JOB N --reason R",
		Short: "Give up an attempt that is under way or unknown; the plan of the job goes on",
		Args:  cobra.ExactArgs(2),
	}
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number, err := attemptNumber(args[1])
		if err != nil {
			return err
		}
		if who.reason == "" {
			return usageError{errNoReason}
		}
		return useStarter(cmd.Context(), func(s *starter.Starter) error {
			if err := s.CancelAttempt(cmd.Context(), args[0], number, starter.Decision{By: who.by, Reason: who.reason}); err != nil {
				return err
			}
			return getAndPrint(cmd, output, s, args[0])
		})
	}
	return cmd
}

func newAttemptResolve() *cobra.Command {
	var who decisionFlags
	var result string
	as := &choice{words: []string{string(onejob.AttemptFailed), string(onejob.AttemptSucceeded)}}
	cmd := &cobra.Command{
		Use:   "resolve JOB N --as failed|succeeded",
		Short: "Say what became of an attempt that is under way or unknown",
		Args:  cobra.ExactArgs(2),
	}
	cmd.Flags().Var(as, "as", "what became of it")
	cmd.Flags().StringVar(&result, "result", "", "of one that succeeded: JSON, @FILE, or - for standard input")
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		number, err := attemptNumber(args[1])
		if err != nil {
			return err
		}
		if err := requireFlags(cmd, "as"); err != nil {
			return err
		}
		if as.value == string(onejob.AttemptSucceeded) && result == "" {
			return usagef("--result is missing: give what the attempt produced")
		}
		return resolve(cmd, output, args[0], number, onejob.AttemptState(as.value), result, starter.Decision{By: who.by, Reason: who.reason})
	}
	return cmd
}

func resolve(cmd *cobra.Command, output *choice, jobID string, number int, as onejob.AttemptState, result string, who starter.Decision) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	text, err := readArgument("result", result, cmd.InOrStdin(), c.Limits.OrDefault().ResultBytes)
	if err != nil {
		return err
	}
	return useCatalog(cmd.Context(), c.Catalog(), func(s *starter.Starter) error {
		if err := s.ResolveAttempt(cmd.Context(), jobID, number, as, text, who); err != nil {
			return err
		}
		return getAndPrint(cmd, output, s, jobID)
	})
}

func attemptNumber(text string) (int, error) {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, usagef("attempt %q is not a number: use 1, 2, … as 'onejob attempt list' prints them", text)
	}
	return number, nil
}
