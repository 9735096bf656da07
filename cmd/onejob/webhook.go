package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/webhooks"
)

func newWebhook() *cobra.Command {
	return newGroup("webhook", "Tell owners what became of their jobs",
		newWebhookAdd(), newWebhookList(), newWebhookRemove(), newWebhookTest(), newWebhookDeliveries(), newWebhookRedeliver())
}

// endpointWithSecret is an endpoint as it is printed once.
type endpointWithSecret struct {
	postgres.Endpoint
	Secret string `json:"secret"`
}

func newWebhookAdd() *cobra.Command {
	var owner, url string
	var topics []string
	cmd := &cobra.Command{
		Use:   "add --owner O --url U",
		Short: "Add an endpoint of an owner, and print the secret that signs what it is told: once",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&owner, "owner", "", "whose jobs it is told of")
	cmd.Flags().StringVar(&url, "url", "", "where it is told")
	cmd.Flags().StringArrayVar(&topics, "topic", nil, "only this topic, of "+strings.Join(webhooks.Topics, ", ")+"; may be repeated (default all)")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := requireFlags(cmd, "owner", "url"); err != nil {
			return err
		}
		policy, err := webhookPolicy()
		if err != nil {
			return err
		}
		endpoint, err := policy.NewEndpoint(owner, url, topics)
		if err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			added, err := s.AddEndpointOnce(cmd.Context(), endpoint)
			if err != nil {
				return err
			}
			return printAs(cmd, output, endpointWithSecret{added, added.Secret}, func(w io.Writer) {
				endpointTable(w, added, []string{"secret", added.Secret + " (it is not shown again)"})
			})
		})
	}
	return cmd
}

// webhookPolicy is what the configuration lets webhooks do.
func webhookPolicy() (webhooks.Policy, error) {
	c, err := loadConfig()
	if err != nil {
		return webhooks.Policy{}, err
	}
	return policyOf(c), nil
}

func policyOf(c *config.Config) webhooks.Policy {
	return webhooks.Policy{CallbackSecrets: c.Webhooks.CallbackSecrets, AllowPrivate: c.Webhooks.AllowPrivate, Timeout: c.Webhooks.Timeout}
}

func newWebhookList() *cobra.Command {
	f := postgres.EndpointFilter{Limit: 100}
	cmd := &cobra.Command{Use: "list", Short: "Print endpoints, in the order of their ids", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&f.Owner, "owner", "", "only this owner's")
	cmd.Flags().IntVar(&f.Limit, "limit", f.Limit, "how many at most")
	cmd.Flags().StringVar(&f.After, "after", "", "the page after the one that ended with this endpoint")
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.Limit < 1 {
			return usagef("--limit %d is out of range: use 1 or more", f.Limit)
		}
		if f.After != "" && uuid.Validate(f.After) != nil {
			return usagef("--after %q is no endpoint's id: use one as 'onejob webhook list' prints them", f.After)
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			endpoints, err := s.Endpoints(cmd.Context(), f)
			if err != nil {
				return err
			}
			return printAs(cmd, output, endpoints, func(w io.Writer) { endpointsTable(w, endpoints) })
		})
	}
	return cmd
}

func newWebhookRemove() *cobra.Command {
	var who decisionFlags
	cmd := &cobra.Command{
		Use:   "remove ENDPOINT",
		Short: "Tell an endpoint nothing more; it stays, disabled, with its history",
		Args:  cobra.ExactArgs(1),
	}
	who.add(cmd)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := onejob.CheckSaid(who.by, who.reason); err != nil {
			return err
		}
		reason := "removed by " + who.by
		if who.reason != "" {
			reason += ": " + who.reason
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			e, err := s.DisableEndpointIfEnabled(cmd.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return printAs(cmd, output, e, func(w io.Writer) { endpointTable(w, e) })
		})
	}
	return cmd
}

// pinged is how an endpoint answered to a ping.
type pinged struct {
	EndpointID string `json:"endpoint_id"`
	Status     int    `json:"status"` // 0: it did not answer
}

func newWebhookTest() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test ENDPOINT",
		Short: "Send an endpoint a signed webhook.ping, now, and print the status it answers with",
		Args:  cobra.ExactArgs(1),
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		policy, err := webhookPolicy()
		if err != nil {
			return err
		}
		return useStore(cmd.Context(), func(s *postgres.Store) error {
			e, err := s.Endpoint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			status, failed := webhooks.NewSender(webhooks.Options{Policy: policy}).Ping(cmd.Context(), e, uuid.NewString(), time.Now())
			if status != 0 {
				if err := printAs(cmd, output, pinged{e.ID, status}, func(w io.Writer) {
					writeTable(w, []string{"endpoint", e.ID}, []string{"status", fmt.Sprint(status)})
				}); err != nil {
					return err
				}
			}
			return failed
		})
	}
	return cmd
}

func endpointTable(w io.Writer, e postgres.Endpoint, more ...[]string) {
	writeTable(w, append([][]string{
		{"endpoint", e.ID}, {"owner", e.Owner}, {"url", e.URL}, {"topics", topicsOf(e)},
		{"state", string(e.State)}, {"reason", e.DisabledReason}, {"created", clock(e.CreatedAt)},
	}, more...)...)
}

func endpointsTable(w io.Writer, endpoints []postgres.Endpoint) {
	rows := [][]string{{"ENDPOINT", "OWNER", "URL", "TOPICS", "STATE", "REASON", "CREATED"}}
	for _, e := range endpoints {
		rows = append(rows, []string{e.ID, e.Owner, e.URL, topicsOf(e), string(e.State), e.DisabledReason, clock(e.CreatedAt)})
	}
	writeTable(w, rows...)
}

func topicsOf(e postgres.Endpoint) string {
	if len(e.Topics) == 0 {
		return "all"
	}
	return strings.Join(e.Topics, ", ")
}
