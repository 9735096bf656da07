package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/cmd/onejob/internal/demo"
	"github.com/onejob/onejob/dev"
	"github.com/onejob/onejob/examples"
	"github.com/onejob/onejob/starter"
)

func newDemo() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Tell the story of onejob on real servers, and prove each claim",
		Long:  demoHelp,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, keep) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave everything up after the story, until interrupted")
	cmd.AddCommand(newClicks())
	return cmd
}

const demoHelp = `Starts Temporal, Postgres, a simulated provider and a worker, all with throwaway data,
and tells a story on them: what happens when a user clicks 200 times, when a provider
says nothing, when a worker is killed, and what all that costs. Every claim is checked
against Postgres, Temporal and what the provider counted; the exit code is 0 only if
every claim held.`

func runDemo(cmd *cobra.Command, keep bool) error {
	options := dev.Options{Throwaway: true, Log: cmd.ErrOrStderr()}
	return withServers(cmd.Context(), options, func(servers *dev.Servers) (err error) {
		run := strings.ToLower(rand.Text()[:8])
		if servers.Postgres.External() {
			drop, err := useOwnDatabase(cmd.Context(), "onejob_demo_"+run)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, drop()) }()
		}
		if !servers.Temporal.External() && !servers.Postgres.External() {
			run = ""
		}
		return tell(cmd, servers, run, keep)
	})
}

// tell tells the story on the servers, to which run is unique.
func tell(cmd *cobra.Command, servers *dev.Servers, run string, keep bool) (err error) {
	if _, err := migrateUp(cmd.Context(), false); err != nil {
		return err
	}
	if run != "" {
		if err := os.Setenv("ONEJOB_TASK_QUEUE", "onejob-demo-"+run); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "onejob-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	temporal, namespace, err := connectTemporal(nil)
	if err != nil {
		return err
	}
	defer temporal.Close()
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	stage, err := demo.Open(cmd.Context(), demo.Options{
		Binary: binary, Dir: dir, Config: localConfig, Jobs: examples.Jobs, Run: run,
		Temporal: temporal, Namespace: namespace, WebUI: servers.Temporal.UIAddress(),
		Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr(),
	})
	if err != nil {
		return err
	}
	defer stage.Close()
	if err := stage.Tell(cmd.Context()); err != nil {
		return err
	}
	if keep {
		keepUp(cmd, servers)
	}
	return nil
}

// keepUp tells where everything is, and leaves it there until an interrupt.
func keepUp(cmd *cobra.Command, servers *dev.Servers) {
	fmt.Fprintf(cmd.OutOrStdout(), "\nEverything stays up until an interrupt. To use it from another terminal:\n\n")
	variables := environ(servers)
	for _, name := range []string{"DATABASE_URL", "ONEJOB_SIMULATOR", "ONEJOB_CONFIG", "ONEJOB_TASK_QUEUE"} {
		if value := os.Getenv(name); value != "" {
			variables = append(withoutVariable(variables, name), name+"="+value)
		}
	}
	exports(cmd.OutOrStdout(), variables)
	<-cmd.Context().Done()
}

// useOwnDatabase makes a database on the server that the environment names, and the
// environment name it. The function drops it.
func useOwnDatabase(ctx context.Context, name string) (drop func() error, err error) {
	server := os.Getenv("DATABASE_URL")
	if err := onServer(ctx, server, "CREATE DATABASE "+name); err != nil {
		return nil, onejob.Errorf("", "the demo cannot make a database of its own: %w: let the role create databases, or unset DATABASE_URL", err)
	}
	own, err := withDatabase(server, name)
	if err == nil {
		err = os.Setenv("DATABASE_URL", own)
	}
	return func() error {
		return onServer(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" WITH (FORCE)")
	}, err
}

func onServer(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// withDatabase returns the connection string, a URL or keywords, for another database.
func withDatabase(server, name string) (string, error) {
	if !strings.HasPrefix(server, "postgres://") && !strings.HasPrefix(server, "postgresql://") {
		return server + " dbname=" + name, nil
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

// newClicks is one of the processes of the double click. It reads the request, says that
// it is ready, waits for the end of its input, and submits as often as it is told, all at
// once.
func newClicks() *cobra.Command {
	return &cobra.Command{
		Use:    "clicks N",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			clicks, err := strconv.Atoi(args[0])
			if err != nil {
				return usagef("%q is not a number", args[0])
			}
			input := bufio.NewReader(cmd.InOrStdin())
			line, err := input.ReadBytes('\n')
			if err != nil {
				return err
			}
			request, err := onejob.DecodeRequest(line)
			if err != nil {
				return err
			}
			return useConfigured(cmd.Context(), func(s *starter.Starter) error {
				fmt.Fprintln(cmd.OutOrStdout(), "ready")
				if _, err := io.Copy(io.Discard, input); err != nil {
					return err
				}
				return click(cmd, s, request, clicks)
			})
		},
	}
}

func click(cmd *cobra.Command, s *starter.Starter, request onejob.Request, clicks int) error {
	answers, errs := make([]onejob.Submitted, clicks), make([]error, clicks)
	var clicking sync.WaitGroup
	for i := range clicks {
		clicking.Go(func() { answers[i], errs[i] = s.Submit(cmd.Context(), request) })
	}
	clicking.Wait()
	for _, answer := range answers {
		if err := writeJSON(cmd.OutOrStdout(), answer); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
