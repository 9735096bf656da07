package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob/postgres"
)

func newReferral() *cobra.Command {
	return newGroup("referral", "Say who brought an owner", newReferralSet())
}

func newReferralSet() *cobra.Command {
	var r postgres.Referral
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "set --owner REFEREE --referrer R --credit 5 --currency USD",
		Short: "Credit the referrer once, when the referee's first job is charged; a referral never changes",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&r.Referee, "owner", "", "who was brought")
	flags.StringVar(&r.Referrer, "referrer", "", "the owner who brought it, and is credited")
	flags.TextVar(&r.Credit, "credit", r.Credit, "how much, above zero")
	flags.StringVar(&r.Currency, "currency", "", "of ISO 4217, like USD")
	who.addBy(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner", "referrer", "credit", "currency"); err != nil {
			return err
		}
		r.RecordedBy = who.by
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			kept, err := s.SetReferralOnce(cmd.Context(), r)
			if err != nil {
				return err
			}
			return printAs(cmd, output, kept, func(w io.Writer) {
				writeTable(w, []string{"owner", kept.Referee}, []string{"referrer", kept.Referrer},
					[]string{"credit", kept.Credit.Display(kept.Currency)}, []string{"created", clock(kept.CreatedAt)}, []string{"by", kept.RecordedBy})
			})
		})
	}
	return cmd
}
