package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/postgres"
)

func newContractList() *cobra.Command {
	var f postgres.CertificateFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print which providers have proved that they honour which contract",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Contract, "kind", "", "only contracts of this kind")
	flags.StringVar(&f.Provider, "provider", "", "only of this provider")
	flags.BoolVar(&f.Valid, "valid", false, "only certificates that count now")
	flags.Int64Var(&f.Before, "before", 0, "only certificates before this id, for the next page")
	flags.IntVar(&f.Limit, "limit", 100, "certificates at most")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 || f.Limit > mostListed {
			return usagef("--limit %d: use 1 to %d", f.Limit, mostListed)
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			certificates, err := s.Certificates(cmd.Context(), f)
			if err != nil {
				return err
			}
			return printAs(cmd, output, certificates, func(w io.Writer) { certificatesTable(w, certificates) })
		})
	}
	return cmd
}

const mostListed = 10_000

func certificatesTable(w io.Writer, certificates []postgres.Certificate) {
	rows := [][]string{{"ID", "KIND", "CONTRACT", "PROVIDER", "MODEL", "ADAPTER", "STATE", "PASSED", "EXPIRES", "WHY"}}
	for _, c := range certificates {
		why := c.SuspendedReason
		if c.RevokedReason != "" {
			why = c.RevokedBy + ": " + c.RevokedReason
		}
		rows = append(rows, []string{fmt.Sprint(c.ID), c.Contract, c.ContractSHA256[:12], c.Provider, c.Model, c.Adapter, string(c.State), clock(c.PassedAt), clock(c.ExpiresAt), why})
	}
	writeTable(w, rows...)
}

func newContractRevoke() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "revoke ID --reason R",
		Short: "Take a certificate back at once",
		Long: `Takes the certificate back, and every other of the same contract, provider and model: no
attempt starts by them from now on. A certification that is under way makes no new one. What is
revoked stays so; 'onejob contract verify' earns a new certificate.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return usagef("%q is no certificate: 'onejob contract list' prints their ids", args[0])
		}
		if err := requireFlags(cmd, "reason"); err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			revoked, err := s.RevokeCertificates(cmd.Context(), id, whoever(), reason)
			if err != nil {
				return err
			}
			return printAs(cmd, output, append([]postgres.Certificate{}, revoked...), func(w io.Writer) { certificatesTable(w, revoked) })
		})
	}
	return cmd
}
