package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
)

// checkTimeout is what the check of one provider gets.
const checkTimeout = time.Minute

// checkedProvider is one finding about one provider, as it is printed.
type checkedProvider struct {
	Provider string `json:"provider"`
	provider.Finding
}

func newProviderCheck() *cobra.Command {
	var o provider.CheckOptions
	cmd := &cobra.Command{
		Use:   "check [NAME]",
		Short: "Try whether providers are as the configuration says",
		Long:  providerCheckHelp,
		Args:  cobra.MaximumNArgs(1),
	}
	output := outputFlag(cmd)
	cmd.Flags().BoolVar(&o.Paid, "paid", false, "make up to three real calls to each provider, to try whether it honours keys")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		providers, err := chosen(c, args)
		if err != nil {
			return err
		}
		findings := []checkedProvider{}
		for _, p := range providers {
			findings = append(findings, check(cmd.Context(), p, o)...)
		}
		if err := printAs(cmd, output, findings, func(w io.Writer) { findingsTable(w, findings) }); err != nil {
			return err
		}
		return failures(findings)
	}
	return cmd
}

const providerCheckHelp = `Tries of each provider, or of the one that is named: whether it can be reached, takes
the credentials, knows the model, honours keys, can be asked about a call and asked to
give one up, and whether its clock agrees with ours. Nothing is paid for without --paid.
Exits with 1 if one of them failed.`

// chosen returns the provider that is named, or all.
func chosen(c *config.Config, names []string) ([]provider.Provider, error) {
	providers, err := c.Adapters()
	if err != nil || len(names) == 0 {
		return providers, err
	}
	i := slices.IndexFunc(providers, func(p provider.Provider) bool { return p.Name == names[0] })
	if i < 0 {
		var known []string
		for _, p := range providers {
			known = append(known, p.Name)
		}
		return nil, onejob.Errorf(onejob.CodeNotFound, "provider %q is not configured: use one of %s", names[0], strings.Join(known, ", "))
	}
	return providers[i : i+1], nil
}

func check(ctx context.Context, p provider.Provider, o provider.CheckOptions) (findings []checkedProvider) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	checker, ok := p.Adapter.(provider.Checker)
	if !ok {
		return []checkedProvider{{p.Name, provider.Finding{Name: provider.FindingReachable, Verdict: provider.VerdictUnknown, Detail: "its adapter cannot try it"}}}
	}
	for _, f := range checker.Check(ctx, o) {
		findings = append(findings, checkedProvider{p.Name, f})
	}
	return findings
}

func findingsTable(w io.Writer, findings []checkedProvider) {
	rows := [][]string{{"PROVIDER", "FINDING", "VERDICT", "DETAIL"}}
	for _, f := range findings {
		rows = append(rows, []string{f.Provider, f.Name, string(f.Verdict), f.Detail})
	}
	writeTable(w, rows...)
}

// failures returns an error that names what failed, nil if nothing did.
func failures(findings []checkedProvider) error {
	var failed []string
	for _, f := range findings {
		if f.Verdict == provider.VerdictFailed {
			failed = append(failed, f.Provider+" "+f.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d findings failed (%s): correct the configuration or the provider", len(failed), len(findings), strings.Join(failed, ", "))
}
