package main

import (
	"context"
	"fmt"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/starter"
)

func newJob() *cobra.Command {
	return newGroup("job", "Read jobs and decide about them", newJobGet(), newJobWait(), newJobList(), newJobCancel(), newJobAttempt())
}

const byIDOrKey = " JOB | --owner O --key K"

func newJobGet() *cobra.Command {
	var named jobFlags
	cmd := &cobra.Command{Use: "get" + byIDOrKey, Short: "Print a job, its attempts and its result", Args: cobra.MaximumNArgs(1)}
	named.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return useJob(cmd, &named, args, func(_ *starter.Starter, d starter.Detail) error {
			return printDetail(cmd, output, newDetail(d, false))
		})
	}
	return cmd
}

func newJobWait() *cobra.Command {
	var named jobFlags
	cmd := &cobra.Command{Use: "wait" + byIDOrKey, Short: "Wait for a job's outcome and print it", Args: cobra.MaximumNArgs(1)}
	named.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return useJob(cmd, &named, args, func(s *starter.Starter, d starter.Detail) error {
			return waitAndPrint(cmd, output, s, d.JobID, false)
		})
	}
	return cmd
}

func newJobCancel() *cobra.Command {
	var named jobFlags
	var who decisionFlags
	cmd := &cobra.Command{Use: "cancel" + byIDOrKey, Short: "Close a job as cancelled; its attempts are given up", Args: cobra.MaximumNArgs(1)}
	named.add(cmd)
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return useJob(cmd, &named, args, func(s *starter.Starter, d starter.Detail) error {
			if err := s.CancelJob(cmd.Context(), d.JobID, starter.Decision{By: who.by, Reason: who.reason}); err != nil {
				return err
			}
			return getAndPrint(cmd, output, s, d.JobID)
		})
	}
	return cmd
}

func newJobAttempt() *cobra.Command {
	var who decisionFlags
	var provider string
	var uncertified bool
	cmd := &cobra.Command{
		Use:   "attempt JOB --provider P",
		Short: "Ask for a new attempt of a job; refused while one is unresolved",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&provider, "provider", "", "where to try")
	cmd.Flags().BoolVar(&uncertified, "uncertified", false, "try there although the provider has no certificate for the contract of the job's kind; recorded")
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := requireFlags(cmd, "provider"); err != nil {
			return err
		}
		return useConfigured(cmd.Context(), func(s *starter.Starter) error {
			if err := s.StartAttempt(cmd.Context(), args[0], provider, starter.Decision{By: who.by, Reason: who.reason, Uncertified: uncertified}); err != nil {
				return err
			}
			return getAndPrint(cmd, output, s, args[0])
		})
	}
	return cmd
}

func newJobList() *cobra.Command {
	var filter postgres.Filter
	cmd := &cobra.Command{Use: "list", Short: "Print jobs, the newest first; the unknown ones, the oldest first", Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVar(&filter.Owner, "owner", "", "only this owner's")
	flags.StringVar((*string)(&filter.Status), "status", "", "only in this state: accepted, running, unknown, succeeded, failed or cancelled")
	flags.StringVar(&filter.Kind, "kind", "", "only of this kind")
	flags.StringVar(&filter.Provider, "provider", "", "only with this primary provider")
	flags.IntVar(&filter.Limit, "limit", 100, "how many at most")
	flags.StringVar(&filter.Before, "before", "", "the page after the one that ended with this job")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkFilter(filter); err != nil {
			return err
		}
		return useStarter(cmd.Context(), func(s *starter.Starter) error {
			jobs, err := s.List(cmd.Context(), filter)
			if err != nil {
				return err
			}
			return printAs(cmd, output, jobs, func(w io.Writer) { jobsTable(w, jobs) })
		})
	}
	return cmd
}

func checkFilter(f postgres.Filter) error {
	switch {
	case f.Status != "" && !f.Status.Known():
		return usagef("--status %q is not a state: use one of %v", f.Status, onejob.Statuses())
	case f.Limit < 1:
		return usagef("--limit %d is out of range: use 1 or more", f.Limit)
	case f.Before != "" && uuid.Validate(f.Before) != nil:
		return usagef("--before %q is not a job id: use the last one of the page before", f.Before)
	}
	return nil
}

func jobsTable(w io.Writer, jobs []onejob.View) {
	rows := [][]string{{"JOB", "OWNER", "KEY", "KIND", "PROVIDER", "STATUS", "COMPLETED BY", "CREATED"}}
	for _, j := range jobs {
		completedBy := ""
		if j.CompletedBy > 0 {
			completedBy = fmt.Sprintf("attempt %d", j.CompletedBy)
		}
		rows = append(rows, []string{j.JobID, j.Owner, j.Key, j.Kind, j.Provider, string(j.Status), completedBy, clock(j.CreatedAt)})
	}
	writeTable(w, rows...)
}

// useJob calls use with the job that the flags or the argument name.
func useJob(cmd *cobra.Command, named *jobFlags, args []string, use func(*starter.Starter, starter.Detail) error) error {
	jobID, err := named.check(cmd, args)
	if err != nil {
		return err
	}
	return useStarter(cmd.Context(), func(s *starter.Starter) error {
		d, err := named.get(cmd.Context(), s, jobID)
		if err != nil {
			return err
		}
		return use(s, d)
	})
}

func (f *jobFlags) get(ctx context.Context, s *starter.Starter, jobID string) (starter.Detail, error) {
	if jobID == "" {
		return s.GetByKey(ctx, f.owner, f.key)
	}
	return s.Get(ctx, jobID)
}

func getAndPrint(cmd *cobra.Command, output *choice, s *starter.Starter, jobID string) error {
	d, err := s.Get(cmd.Context(), jobID)
	if err != nil {
		return err
	}
	return printDetail(cmd, output, newDetail(d, false))
}
