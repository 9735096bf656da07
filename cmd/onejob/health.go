package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
)

const healthPatience = 4 * time.Second

func newHealth() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the worker, or the door, on this machine whether it is ready; exit 1 if not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return askReady(cmd.Context(), address)
		},
	}
	cmd.Flags().StringVar(&address, "address", defaultHealthAddress, "where the worker listens")
	return cmd
}

// awaitReady waits until the worker at the address is ready.
func awaitReady(ctx context.Context, address string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if askReady(ctx, address) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// askReady returns an error that says what a worker lacks.
func askReady(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return usagef("--address %q is not host:port: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return onejob.Errorf("", "the worker does not answer: %w: start one with 'onejob worker', or give --address", err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return nil
	}
	why, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return onejob.Errorf("", "the worker's answer cannot be read: %w", err)
	}
	return onejob.Errorf("", "the worker at %s is not ready: %s", address, strings.TrimSpace(string(why)))
}
