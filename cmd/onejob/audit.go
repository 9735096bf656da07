package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func newAudit() *cobra.Command {
	var days dayFlags
	var scope postgres.AuditScope
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Compare ledger, summaries, budgets, claims and messages; exit 1 on any difference",
		Long: `Compares ledger, summaries, budgets, claims and messages at one moment, and prints
every difference with its ids, a hundred of each check. Exit code 1: there is one.
Warnings, such as usage without a price, are printed and are none. docs/audit.md
says what each check finds and what to do about it.`,
		Args: cobra.NoArgs,
	}
	days.add(cmd)
	cmd.Flags().StringVar(&scope.Owner, "owner", "", "only of this owner")
	cmd.Flags().DurationVar(&scope.Patience, "patience", postgres.AuditPatience, "how long a message may be under way")
	cmd.Flags().DurationVar(&scope.Retention, "retention", postgres.AuditRetention, "how long workers keep messages, or less: older ones may be gone")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if scope.First, scope.Last, err = days.parse(); err != nil {
			return err
		}
		if scope.Patience <= 0 {
			return usagef("--patience %s is not above zero", scope.Patience)
		}
		if scope.Retention <= 0 {
			return usagef("--retention %s is not above zero", scope.Retention)
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			audit, err := s.Audit(cmd.Context(), scope, nil)
			if err != nil {
				return err
			}
			if err := printAs(cmd, output, audit, func(w io.Writer) { auditTable(w, audit) }); err != nil {
				return err
			}
			return auditError(audit)
		})
	}
	return cmd
}

// auditError makes any difference exit code 1.
func auditError(audit postgres.Audit) error {
	if audit.Differences == 0 {
		return nil
	}
	return onejob.Errorf("", "the audit found %d differences, the worst ratio of a summary to the ledger is %s: see docs/audit.md for what each means", audit.Differences, audit.WorstRatio)
}

func auditTable(w io.Writer, audit postgres.Audit) {
	rows := [][]string{{"CHECK", "SEVERITY", "FOUND"}}
	for _, c := range audit.Checks {
		rows = append(rows, []string{c.Name, string(c.Severity), fmt.Sprint(c.Count)})
	}
	writeTable(w, rows...)
	for _, c := range audit.Checks {
		if c.Count > 0 {
			fmt.Fprintf(w, "\n%s: %d\n", c.Name, c.Count)
		}
		for _, f := range c.Findings {
			fmt.Fprintf(w, "  %s [%s]\n", printable(f.Says), printable(strings.Join(idsOf(f), " ")))
		}
		if rest := c.Count - len(c.Findings); rest > 0 {
			fmt.Fprintf(w, "  and %d more\n", rest)
		}
	}
	groupsTable(w, audit.Groups)
	fmt.Fprintf(w, "\n%d differences, %d warnings; worst ratio of a summary to the ledger: %s\n", audit.Differences, audit.Warnings, audit.WorstRatio)
}

// idsOf returns the finding's ids as name=value, by name.
func idsOf(f postgres.AuditFinding) (ids []string) {
	for _, name := range slices.Sorted(maps.Keys(f.IDs)) {
		ids = append(ids, name+"="+f.IDs[name])
	}
	return ids
}

func groupsTable(w io.Writer, groups []postgres.GroupState) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := [][]string{{"GROUP", "PENDING", "OLDEST", "AGE", "DEAD", "DUPLICATES"}}
	for _, g := range groups {
		age := ""
		if g.Oldest != "" {
			age = fmt.Sprintf("%ds", g.OldestAge)
		}
		rows = append(rows, []string{g.Group, fmt.Sprint(g.Pending), g.Oldest, age, fmt.Sprint(g.Dead), fmt.Sprint(g.Duplicates)})
	}
	writeTable(w, rows...)
}
