package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/workflows"
)

// verification is what 'contract verify' was asked for.
type verification struct {
	file      string
	providers []string
	all       bool
	primary   string
	report    string // a file; empty: none
}

func newContractVerify() *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use:   "verify FILE --provider P",
		Short: "Have providers prove that they honour a contract",
		Long:  contractVerifyHelp,
		Args:  cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&v.providers, "provider", nil, "who is to prove itself; repeatable")
	flags.BoolVar(&v.all, "all", false, "all providers of onejob.yaml, one after the other")
	flags.StringVar(&v.primary, "primary", "", "whose answers are compared with (default with --all and several --provider: the first)")
	flags.StringVar(&v.report, "report", "", "also write the report to this file: .html or .json")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v.file = args[0]
		reports, err := v.run(cmd)
		if err != nil {
			return err
		}
		if err := printAs(cmd, output, reports, func(w io.Writer) { verifiedTable(w, reports) }); err != nil {
			return err
		}
		if v.report != "" {
			if err := writeReport(v.report, reports); err != nil {
				return err
			}
		}
		return failedToPass(reports)
	}
	return cmd
}

const contractVerifyHelp = `Asks each provider the cases of the contract, as a worker does for a job, and judges what it
answers: that the prompts render and fit, the structure of each reply, its meaning, what a call
takes, costs and counts, and that the system prompt is obeyed. A provider that passes gets a
certificate for this contract, its model and its adapter.

The calls are paid for. They are booked as cost of the owner onejob:certification; 'onejob
budget set --owner onejob:certification' bounds them. They are made by a worker, in the workflow
Certification: an interrupt of this command does not end it, the same command watches it again.

Exits with 5 if a provider does not pass.`

// run verifies with each provider and returns the reports.
func (v verification) run(cmd *cobra.Command) (reports []certify.Report, err error) {
	if ext := filepath.Ext(v.report); v.report != "" && ext != ".html" && ext != ".json" {
		return nil, usagef("--report %q is neither a page nor JSON: end it in .html or .json", v.report)
	}
	c, bundle, err := certify.Load(v.file)
	if err != nil {
		return nil, refusedContract(v.file, err)
	}
	from, err := loadConfig()
	if err != nil {
		return nil, err
	}
	if v.providers, err = v.whom(from); err != nil {
		return nil, err
	}
	conn, err := connect(cmd.Context(), nil)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	text := postgres.ContractText{SHA256: c.SHA256, Kind: c.Kind, Version: c.Version, File: bundle.File, Files: bundle.Files}
	if err := conn.store.StoreContractOnce(cmd.Context(), text); err != nil {
		return nil, err
	}
	for _, name := range v.providers {
		report, err := v.verify(cmd.Context(), cmd.ErrOrStderr(), conn, c, name)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", name, err)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// refusedContract is what to say of a file that is no contract.
func refusedContract(file string, err error) error {
	if onejob.CodeOf(err) != onejob.CodeMisconfigured {
		return err
	}
	return onejob.Errorf(onejob.CodeInvalidRequest, "%w: see 'onejob contract lint %s'", err, file)
}

// whom returns the providers that are to prove themselves, the primary first.
func (v *verification) whom(from *config.Config) ([]string, error) {
	var known []string
	for _, p := range from.Providers {
		known = append(known, p.Name)
	}
	switch {
	case v.all && len(v.providers) > 0:
		return nil, usagef("--all names every provider: leave --provider out")
	case !v.all && len(v.providers) == 0:
		return nil, usagef("--provider is missing: name one of %s, or give --all", strings.Join(known, ", "))
	}
	names := v.providers
	if v.all {
		names = known
	}
	for _, name := range append(slices.Clone(names), v.primary) {
		if name != "" && len(known) == 0 {
			return nil, usagef("provider %q is not in %s, which has none: add it to providers:", name, config.Path())
		}
		if name != "" && !slices.Contains(known, name) {
			return nil, usagef("provider %q is not in %s: name one of %s", name, config.Path(), strings.Join(known, ", "))
		}
	}
	if v.primary == "" && len(names) > 1 {
		v.primary = names[0]
	}
	return names, nil
}

// verify has one provider prove itself and returns the report.
func (v verification) verify(ctx context.Context, progress io.Writer, conn *connection, c *contract.Contract, name string) (report certify.Report, err error) {
	runs := workflows.Certifications{Client: conn.temporal, TaskQueue: taskQueue()}
	id, err := uuid.NewV7()
	if err != nil {
		return report, err
	}
	in := activities.CertificationInput{RunID: id.String(), ContractSHA256: c.SHA256, Provider: name, Primary: v.primary, RequestedBy: whoever()}
	runID, started, err := runs.Start(ctx, in, c.Kind)
	if err != nil {
		return report, err
	}
	if !started {
		fmt.Fprintf(progress, "onejob: %s is being verified already; this watches it\n", name)
	}
	if err := awaitCertification(ctx, progress, runs, conn.store, c.SHA256, name, runID); err != nil {
		return report, err
	}
	text, err := conn.store.CertificationReport(ctx, runID)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(text, &report)
}

// awaitCertification waits for the end and tells how far it is.
func awaitCertification(ctx context.Context, progress io.Writer, runs workflows.Certifications, store *postgres.Store, sha, name, runID string) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() {
		_, err := runs.Await(ctx, sha, name)
		ended <- err
	}()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for told := ""; ; {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			done, total, err := store.CertificationProgress(ctx, runID)
			if err != nil {
				continue // it is told at the end, if it lasts
			}
			if now := fmt.Sprintf("onejob: %s: %d of %d calls\n", name, done, total); now != told && total > 0 {
				told = now
				io.WriteString(progress, now)
			}
		}
	}
}

const progressEvery = time.Second

// failedToPass returns an error if a provider did not pass.
func failedToPass(reports []certify.Report) error {
	var failed []string
	for _, r := range reports {
		if !r.Passed {
			failed = append(failed, r.Provider+": "+r.Summary)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return notPassed{fmt.Errorf("%d of %s did not pass: %s", len(failed), plural(len(reports), "provider"), strings.Join(failed, "; "))}
}

// verifiedTable prints each report: the checks, then the cases that are not as they should be.
func verifiedTable(w io.Writer, reports []certify.Report) {
	for i, r := range reports {
		if i > 0 {
			fmt.Fprintln(w)
		}
		verdict := "did not pass"
		if r.Passed {
			verdict = "passed"
		}
		fmt.Fprintf(w, "%s (%s) %s %s version %d, sha256 %.12s\n", printable(r.Provider), printable(r.Model), verdict, printable(r.Contract), r.Version, r.SHA256)
		rows := [][]string{{"CHECK", "VERDICT", "FINDINGS", "SAYS"}}
		for _, k := range r.Checks {
			rows = append(rows, []string{k.Name, k.Verdict, fmt.Sprint(k.Count), k.Says})
		}
		writeTable(w, rows...)
		fmt.Fprintf(w, "%s, %d answered, cost %s, longest %d ms\n", plural(r.Totals.Calls, "call"), r.Totals.Answered, strings.TrimSpace(r.Totals.Cost+" "+r.Totals.Currency), r.Totals.LongestLatencyMS)
		casesTable(w, r)
		for _, d := range r.Disagreements {
			fmt.Fprintln(w, printable(fmt.Sprintf("case %s%s: %s says %s, %s says %s", d.Case, d.Path, r.Primary, d.Primary, r.Provider, d.This)))
		}
	}
}

func casesTable(w io.Writer, r certify.Report) {
	rows := [][]string{{"CASE", "RUNS", "MUST PASS", "PASSED", "DIFFERENT", "FIRST FINDING"}}
	for _, k := range r.Cases {
		if k.Passed == k.Runs && k.Values <= 1 {
			continue
		}
		first := ""
		for _, call := range k.Calls {
			if first == "" && len(call.Findings) > 0 {
				first = call.Findings[0].Error()
			} else if first == "" && call.State != "answered" {
				first = call.Reason + ": " + call.Detail
			}
		}
		rows = append(rows, []string{k.Name, fmt.Sprint(k.Runs), fmt.Sprint(k.MustPass), fmt.Sprint(k.Passed), fmt.Sprint(k.Values), first})
	}
	if len(rows) > 1 {
		fmt.Fprintln(w)
		writeTable(w, rows...)
	}
}

// writeReport writes the reports to the file, as its name says.
func writeReport(path string, reports []certify.Report) error {
	var text bytes.Buffer
	var err error
	if filepath.Ext(path) == ".json" {
		err = writeJSON(&text, reports)
	} else {
		err = certify.WriteHTML(&text, reports)
	}
	if err == nil {
		err = writeFile(path, text.Bytes())
	}
	if err != nil {
		return fmt.Errorf("the report cannot be written to %s: %w", path, err)
	}
	return nil
}
