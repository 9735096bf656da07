package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/simulator"
)

func newSimulator() *cobra.Command {
	var address, planFile string
	var seed int64
	var o simulator.Options
	cmd := &cobra.Command{
		Use:   "simulator",
		Short: "Run a provider that misbehaves on request, until interrupted",
		Long:  simulatorHelp,
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "listen", "127.0.0.1:8099", "address to answer on; port 0: a free one")
	flags.StringVar(&planFile, "plan", "", "file with a plan of faults as JSON")
	flags.Int64Var(&seed, "seed", 0, "of the plan's draws, in place of the plan's own")
	flags.BoolVar(&o.HonourKeys, "honour-keys", false, "execute a request with a key that was executed before no second time")
	flags.IntVar(&o.MostKeys, "most-keys", 0, "remember only the newest keys, this many; 0: all")
	flags.StringVar(&o.CallbackSecret, "callback-secret", "", "signs callbacks: whsec_ and 24 to 64 bytes in base64; empty: no callbacks")
	flags.DurationVar(&o.ClockSkew, "clock-skew", 0, "by which the header Date of every answer is ahead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if o.CallbackSecret != "" {
			if err := simulator.CheckSecret(o.CallbackSecret); err != nil {
				return usagef("--callback-secret cannot be used: %w", err)
			}
		}
		if o.Plan, err = readPlan(planFile); err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			o.Plan.Seed = seed
		}
		return runSimulator(cmd.Context(), address, o)
	}
	return cmd
}

func runSimulator(ctx context.Context, address string, o simulator.Options) error {
	listener, err := listen(ctx, address, "--listen")
	if err != nil {
		return err
	}
	slog.Info("simulator listens", "address", "http://"+listener.Addr().String())
	return simulator.New(o).Run(ctx, listener)
}

const simulatorHelp = `Runs a provider for tests and demonstrations, until interrupted.

It executes what is posted to /v1/run/NAME and counts that; below /openai/NAME/v1 and
/anthropic/NAME/v1 it speaks the vendors' formats. What goes wrong is said by a member
"simulate" of the body or JSON in the header Onejob-Simulate (docs/simulator.md), else by
the plan:

  {"lost_reply": 0.05, "late": 0.1, "late_by": "12s", "status": {"503": 0.1}, "latency": "50ms"}

It can be asked about a call at /v1/run/NAME/ref/REF, /v1/run/NAME/key/KEY and
/v1/run/NAME/job/JOB/attempt/NUMBER, and to give one up by a POST to the same and /cancel.`

// readPlan reads a plan of faults; without a file, one that has none.
func readPlan(path string) (plan simulator.Plan, err error) {
	if path == "" {
		return plan, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return plan, usagef("--plan cannot be read: %w", err)
	}
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&plan); err != nil {
		return plan, usagef("--plan %s is not a plan: %w: see 'onejob simulator --help'", path, err)
	}
	if err := plan.Check(); err != nil {
		return plan, usagef("--plan %s: %w", path, err)
	}
	return plan, nil
}
