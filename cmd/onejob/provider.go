package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
)

func newProvider() *cobra.Command {
	return newGroup("provider", "Show and try the configured providers", newProviderList(), newProviderCheck(),
		newProviderStatus(), newProviderPause(), newProviderResume())
}

// listedProvider is a provider as it is printed.
type listedProvider struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	URL         string          `json:"url"` // without user and query
	Model       string          `json:"model"`
	Timeout     onejob.Duration `json:"timeout"`
	ListenFor   onejob.Duration `json:"listen_for"`
	Idempotency string          `json:"idempotency"` // the header, "": keys are not honoured
}

func newProviderList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "Print the providers of the configuration", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		providers := []listedProvider{}
		for _, p := range c.Providers {
			providers = append(providers, list(p))
		}
		return printAs(cmd, output, providers, func(w io.Writer) { providersTable(w, providers) })
	}
	return cmd
}

func list(p config.Provider) listedProvider {
	listed := listedProvider{Name: p.Name, Type: p.Type, URL: provider.Secrets{}.Clean(p.URL), Model: p.Model,
		Timeout: onejob.Duration(p.Timeout), ListenFor: onejob.Duration(p.ListenFor)}
	if p.Idempotency != nil {
		listed.Idempotency = p.Idempotency.Header
	}
	return listed
}

func providersTable(w io.Writer, providers []listedProvider) {
	rows := [][]string{{"PROVIDER", "TYPE", "URL", "MODEL", "TIMEOUT", "LISTEN FOR", "IDEMPOTENCY"}}
	for _, p := range providers {
		timeout, _ := p.Timeout.MarshalText() // never fails
		listenFor, _ := p.ListenFor.MarshalText()
		rows = append(rows, []string{p.Name, p.Type, p.URL, p.Model, string(timeout), string(listenFor), p.Idempotency})
	}
	writeTable(w, rows...)
}
