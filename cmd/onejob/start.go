package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/starter"
)

// startFlags are what `onejob start` takes.
type startFlags struct {
	request onejob.Request
	labels  []string
	input   string
	file    string
	wait    bool
	output  *choice
}

func newStart() *cobra.Command {
	f := &startFlags{}
	cmd := &cobra.Command{
		Use:   "start --owner O --key K --kind KIND --provider P --input JSON|@FILE|-",
		Short: "Submit a job, or many from a file",
		Long:  startHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("file") {
				return f.startAll(cmd)
			}
			return f.startOne(cmd)
		},
	}
	f.add(cmd)
	return cmd
}

const startHelp = `Submits a job. The same owner and key again is the same job, and changes nothing.

The job is accepted as soon as Postgres has it, also while Temporal is away.

With --file, every line is a request as JSON, and one line of JSON is printed for each,
in the same order; the other flags are defaults for lines that leave them out. It may be
interrupted and run again with the same file.`

func (f *startFlags) add(cmd *cobra.Command) {
	r, flags := &f.request, cmd.Flags()
	flags.StringVar(&r.Owner, "owner", "", "whose intention it is")
	flags.StringVar(&r.Key, "key", "", "the owner's idempotency key for the intention")
	flags.StringVar(&r.Kind, "kind", "", "kind of the job")
	flags.StringVar(&r.Provider, "provider", "", "the primary provider")
	flags.StringArrayVar(&r.Fallbacks, "fallback", nil, "another provider to fall back to; repeatable, in order")
	flags.StringVar(&f.input, "input", "", "the input: JSON, @FILE, or - for standard input")
	flags.DurationVar((*time.Duration)(&r.Timeout), "timeout", 0, "silence that makes an attempt unknown (default the provider's)")
	flags.DurationVar((*time.Duration)(&r.ListenFor), "listen-for", 0, "how long a late answer is listened for (default the provider's)")
	flags.IntVar(&r.MaxAttempts, "max-attempts", 0, fmt.Sprintf("over the whole job (default %d)", onejob.DefaultMaxAttempts))
	flags.DurationVar((*time.Duration)(&r.HedgeAfter), "hedge-after", 0, "silence that starts a second attempt (default never)")
	flags.StringVar(&r.CallbackURL, "callback-url", "", "URL to tell the outcome to")
	flags.StringArrayVar(&f.labels, "label", nil, "k=v; repeatable")
	flags.StringVar(&f.file, "file", "", "file of requests, one per line as JSON, or - for standard input")
	flags.BoolVar(&f.wait, "wait", false, "wait for the outcome and print the job")
	f.output = outputFlag(cmd)
}

// startOne submits the job of the flags.
func (f *startFlags) startOne(cmd *cobra.Command) error {
	if err := requireFlags(cmd, "owner", "key", "kind", "provider", "input"); err != nil {
		return err
	}
	c, err := loadConfig()
	if err != nil {
		return err
	}
	if err := f.complete(cmd.InOrStdin(), c.Limits); err != nil {
		return err
	}
	return useCatalog(cmd.Context(), c.Catalog(), func(s *starter.Starter) error { return f.submit(cmd, s) })
}

// submit submits the request, and waits for its outcome if asked to. A job that was
// accepted is printed, whatever else went wrong.
func (f *startFlags) submit(cmd *cobra.Command, s *starter.Starter) error {
	submitted, err := s.Submit(cmd.Context(), f.request)
	if submitted.JobID == "" || onejob.CodeOf(err) == onejob.CodeConflict {
		return err
	}
	if err == nil && f.wait {
		return waitAndPrint(cmd, f.output, s, submitted.JobID, submitted.Created)
	}
	printed := printAs(cmd, f.output, submitted, func(w io.Writer) {
		writeTable(w, []string{"job", submitted.JobID}, []string{"workflow", submitted.WorkflowID},
			[]string{"status", string(submitted.Status)}, []string{"created", fmt.Sprint(submitted.Created)})
	})
	if err != nil {
		return err
	}
	return printed
}

// complete reads the flags that are no plain values.
func (f *startFlags) complete(stdin io.Reader, limits onejob.Limits) (err error) {
	if f.request.Labels, err = parseLabels(f.labels); err != nil {
		return err
	}
	f.request.Input, err = readArgument("input", f.input, stdin, limits.OrDefault().InputBytes)
	return err
}

func parseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("--label %q has no value: write it as k=v", pair)
		}
		if _, twice := labels[name]; twice {
			return nil, usagef("--label %q stands twice: give it once", name)
		}
		labels[name] = value
	}
	return labels, nil
}

// waitAndPrint prints the job once it has its outcome. One that has no result is an
// error: whoever goes on after the command needs the result.
func waitAndPrint(cmd *cobra.Command, output *choice, s *starter.Starter, jobID string, created bool) error {
	d, err := waitAloud(cmd, s, jobID)
	if err != nil {
		return err
	}
	if err := printDetail(cmd, output, newDetail(d, created)); err != nil {
		return err
	}
	return outcomeError(d.View)
}

// looksWhileWaiting is how often a wait looks whether the job is unknown.
const looksWhileWaiting = 3 * time.Second

// waitAloud waits for the job's outcome. Of an attempt that is unknown it says so, once,
// and how to get it out: whoever waits would wait for it in vain.
func waitAloud(cmd *cobra.Command, s *starter.Starter, jobID string) (starter.Detail, error) {
	for told := 0; ; {
		patience, cancel := context.WithTimeout(cmd.Context(), looksWhileWaiting)
		d, err := s.Wait(patience, jobID)
		over := patience.Err() != nil && cmd.Context().Err() == nil
		cancel()
		if err == nil || !over {
			return d, err
		}
		if d, err = s.Get(cmd.Context(), jobID); err != nil {
			return d, err
		}
		for _, a := range d.Attempts {
			if a.State == onejob.AttemptUnknown && a.Number > told {
				fmt.Fprintf(cmd.ErrOrStderr(), "onejob: still waiting: %v\n", onejob.UnresolvedError(jobID, a))
				told = a.Number
			}
		}
	}
}

// outcomeError returns an [onejob.ErrJobFailed] for a job that ended without a result.
func outcomeError(v onejob.View) error {
	switch {
	case v.Status == onejob.StatusCancelled:
		return onejob.Errorf(onejob.CodeJobFailed, "job %s was cancelled: submit a new intention under a new key", v.JobID)
	case v.Status == onejob.StatusFailed && v.Error != nil:
		return onejob.Errorf(onejob.CodeJobFailed, "job %s failed (%s): %s; 'onejob job attempt %s --provider …' tries again",
			v.JobID, v.Error.Code, v.Error.Message, v.JobID)
	}
	return nil
}
