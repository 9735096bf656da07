package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/simulator"
)

func newSimulator() *cobra.Command {
	var address, planFile string
	var seed int64
	var honourKeys bool
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
	flags.BoolVar(&honourKeys, "honour-keys", false, "execute a request with a key that was executed before no second time")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		plan, err := readPlan(planFile)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("seed") {
			plan.Seed = seed
		}
		listener, err := listen(cmd.Context(), address)
		if err != nil {
			return err
		}
		slog.Info("simulator listens", "address", "http://"+listener.Addr().String())
		return simulator.New(simulator.Options{Plan: plan, HonourKeys: honourKeys}).Run(cmd.Context(), listener)
	}
	return cmd
}

const simulatorHelp = `Runs a provider for tests and demonstrations, until interrupted.

It executes what is posted to /v1/run/NAME and counts that. What goes wrong is said by a
member "simulate" of the input, else by the plan:

  {"lost_reply": 0.05, "late": 0.1, "late_by": "12s", "status": {"503": 0.1}, "latency": "50ms"}`

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
