package main

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/postgres"
)

func newToken() *cobra.Command {
	return newGroup("token", "Say who may use the HTTP door", newTokenCreate(), newTokenList(), newTokenRevoke())
}

// tokenWithSecret is a token as it is printed once.
type tokenWithSecret struct {
	postgres.Token
	Secret string `json:"token"`
}

func newTokenCreate() *cobra.Command {
	var owner string
	var expires time.Duration
	var who decisionFlags
	role := oneOf(string(onejob.RoleUser), string(onejob.RoleOperator), string(onejob.RoleAdmin))
	cmd := &cobra.Command{
		Use:   "create --owner O",
		Short: "Make a token of an owner, and print it: once",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&owner, "owner", "", "whose jobs its holder submits")
	flags.Var(role, "role", "what its holder may: user, operator or admin")
	flags.DurationVar(&expires, "expires", 90*24*time.Hour, "how long it lasts")
	who.addBy(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner"); err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			made, err := createToken(cmd.Context(), s, owner, onejob.Role(role.value), who.by, expires)
			if err != nil {
				return err
			}
			return printAs(cmd, output, made, func(w io.Writer) {
				tokenTable(w, made.Token, []string{"secret", made.Secret + " (it is not shown again)"})
			})
		})
	}
	return cmd
}

func createToken(ctx context.Context, s *postgres.Store, owner string, role onejob.Role, by string, expires time.Duration) (tokenWithSecret, error) {
	secret, token, err := api.NewToken(owner, role, by, expires)
	if err != nil {
		return tokenWithSecret{}, err
	}
	added, err := s.AddToken(ctx, token)
	return tokenWithSecret{added, secret}, err
}

func newTokenList() *cobra.Command {
	f := postgres.TokenFilter{Limit: 100}
	cmd := &cobra.Command{Use: "list", Short: "Print tokens, the newest first; never their secrets", Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVar(&f.Owner, "owner", "", "only this owner's")
	flags.IntVar(&f.Limit, "limit", f.Limit, "how many at most")
	flags.StringVar(&f.Before, "before", "", "the page after the one that ended with this token")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 {
			return usagef("--limit %d is out of range: use 1 or more", f.Limit)
		}
		if f.Before != "" && uuid.Validate(f.Before) != nil {
			return usagef("--before %q is no token: use the last one of the page before", f.Before)
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			tokens, err := s.Tokens(cmd.Context(), f)
			if err != nil {
				return err
			}
			return printAs(cmd, output, tokens, func(w io.Writer) { tokensTable(w, tokens) })
		})
	}
	return cmd
}

func newTokenRevoke() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{Use: "revoke TOKEN", Short: "End a token at once, by its id", Args: cobra.ExactArgs(1)}
	who.addBy(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := onejob.CheckSaid(who.by, ""); err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			revoked, err := s.RevokeTokenIfLive(cmd.Context(), args[0], who.by)
			if err != nil {
				return err
			}
			return printAs(cmd, output, revoked, func(w io.Writer) { tokenTable(w, revoked) })
		})
	}
	return cmd
}

func tokenTable(w io.Writer, t postgres.Token, more ...[]string) {
	writeTable(w, append([][]string{
		{"id", t.ID}, {"owner", t.Owner}, {"role", string(t.Role)}, {"created", clock(t.CreatedAt)}, {"created by", t.CreatedBy},
		{"expires", clock(t.ExpiresAt)}, {"revoked", clock(t.RevokedAt)}, {"revoked by", t.RevokedBy},
	}, more...)...)
}

func tokensTable(w io.Writer, tokens []postgres.Token) {
	rows := [][]string{{"TOKEN", "OWNER", "ROLE", "CREATED", "BY", "EXPIRES", "LAST USED", "REVOKED", "BY"}}
	for _, t := range tokens {
		rows = append(rows, []string{t.ID, t.Owner, string(t.Role), clock(t.CreatedAt), t.CreatedBy, clock(t.ExpiresAt), clock(t.LastUsedAt), clock(t.RevokedAt), t.RevokedBy})
	}
	writeTable(w, rows...)
}
