package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/postgres"
)

// The states of a circuit, as they are printed.
const (
	circuitClosed = "closed" // the provider is called
	circuitOpen   = "open"   // no worker calls it
	circuitPaused = "paused" // no worker calls it, because somebody said so
	circuitTrying = "trying" // one attempt every 30 s at most tries
)

// providerStatus is how a provider fares, as it is printed.
type providerStatus struct {
	Name       string     `json:"name"`
	Circuit    string     `json:"circuit"`
	Until      *time.Time `json:"until"` // when it is tried again; null: it is called
	Reason     string     `json:"reason"`
	PausedBy   string     `json:"paused_by"`
	Underway   int        `json:"underway"` // attempts without an outcome, the unknown ones among them
	Unknown    int        `json:"unknown"`
	Configured bool       `json:"configured"`
}

func newProviderStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print which providers are called, and what they have under way",
		Long: `Prints the providers of the configuration and those that have attempts under way. A
worker opens a provider's circuit when calls in a row were not served: no worker calls the
provider then, for a while, and after that one attempt every 30 s at most tries.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		return useStore(cmd.Context(), func(store *postgres.Store) error {
			all, err := readStatus(cmd.Context(), store, c)
			if err != nil {
				return err
			}
			return printAs(cmd, output, all, func(w io.Writer) { statusTable(w, all) })
		})
	}
	return cmd
}

func readStatus(ctx context.Context, store *postgres.Store, c *config.Config) ([]providerStatus, error) {
	circuits, err := store.Circuits(ctx)
	if err != nil {
		return nil, err
	}
	loads, err := store.ProviderLoads(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]*providerStatus{}
	at := func(name string) *providerStatus {
		if byName[name] == nil {
			byName[name] = &providerStatus{Name: name, Circuit: circuitClosed}
		}
		return byName[name]
	}
	for _, p := range c.Providers {
		at(p.Name).Configured = true
	}
	for _, circuit := range circuits {
		at(circuit.Provider).take(circuit)
	}
	for _, load := range loads {
		s := at(load.Provider)
		s.Underway, s.Unknown = load.Underway, load.Unknown
	}
	all := []providerStatus{}
	for _, s := range byName {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b providerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func (s *providerStatus) take(c postgres.Circuit) {
	s.Until, s.Reason, s.PausedBy = &c.OpenUntil, c.Reason, c.PausedBy
	switch {
	case c.OpenFor <= 0:
		s.Circuit = circuitTrying
	case c.PausedBy != "":
		s.Circuit = circuitPaused
	default:
		s.Circuit = circuitOpen
	}
}

func statusTable(w io.Writer, all []providerStatus) {
	rows := [][]string{{"PROVIDER", "CIRCUIT", "UNTIL", "UNDER WAY", "UNKNOWN", "REASON"}}
	for _, s := range all {
		until := ""
		if s.Until != nil {
			until = clock(*s.Until)
		}
		rows = append(rows, []string{s.Name, s.Circuit, until, strconv.Itoa(s.Underway), strconv.Itoa(s.Unknown), s.Reason})
	}
	writeTable(w, rows...)
}

func newProviderPause() *cobra.Command {
	var who decisionFlags
	var pause time.Duration
	cmd := &cobra.Command{
		Use:   "pause NAME --for 1h --reason R",
		Short: "Let no worker call a provider for a time; its jobs go to their fallbacks or wait",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().DurationVar(&pause, "for", 0, "how long, like 30m or 2h")
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := requireFlags(cmd, "for"); err != nil {
			return err
		}
		switch {
		case pause < time.Second || pause > longestPause:
			return usagef("--for %v is out of range: use 1s to %v", pause, longestPause)
		case who.reason == "":
			return usageError{errNoReason}
		}
		c, err := loadConfig()
		if err != nil {
			return err
		}
		if err := c.Catalog().CheckProvider(args[0]); err != nil {
			return err
		}
		return useStore(cmd.Context(), func(store *postgres.Store) error {
			if err := store.PauseProvider(cmd.Context(), args[0], pause, who.by, who.reason); err != nil {
				return err
			}
			return printCircuit(cmd, output, args[0], circuitPaused)
		})
	}
	return cmd
}

// longestPause is as long as a job waits for one provider.
const longestPause = 72 * time.Hour

func newProviderResume() *cobra.Command {
	cmd := &cobra.Command{Use: "resume NAME", Short: "Let workers call a provider again", Args: cobra.ExactArgs(1)}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return useStore(cmd.Context(), func(store *postgres.Store) error {
			if err := store.ResumeProvider(cmd.Context(), args[0]); err != nil {
				return err
			}
			return printCircuit(cmd, output, args[0], circuitClosed)
		})
	}
	return cmd
}

// printCircuit prints what became of the provider's circuit.
func printCircuit(cmd *cobra.Command, output *choice, name, circuit string) error {
	return printAs(cmd, output, map[string]string{"name": name, "circuit": circuit}, func(w io.Writer) {
		writeTable(w, []string{circuit, name})
	})
}
