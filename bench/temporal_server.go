package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/workflows"
)

//go:embed temporal.yaml.tmpl
var serverConfig string

const (
	serverPorts    = 9
	serverPatience = 2 * time.Minute
)

// serverOnPostgres is what the configuration of a Temporal server says.
type serverOnPostgres struct {
	Main, Visibility sqlStore
	Dynamic          string // path of the settings that may change while it runs
	ports            []int
}

type sqlStore struct {
	Address, Database, User, Password string
	Connections                       int
}

// Port is the nth port of the server; the first is its clients'.
func (s serverOnPostgres) Port(n int) int { return s.ports[n] }

// startTemporal starts a server whose databases are there and empty, in the folder.
// With eager, activities start without a poll where the worker has room.
func startTemporal(ctx context.Context, b temporalBinaries, dir, postgresURL, main, visibility string, eager bool) (*process, string, error) {
	config, err := pgconn.ParseConfig(postgresURL)
	if err != nil {
		return nil, "", err
	}
	address := net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))
	password := config.Password
	if password == "" {
		password = "none" // the tool insists on one
	}
	store := func(database string, connections int) sqlStore {
		return sqlStore{Address: address, Database: database, User: config.User, Password: password, Connections: connections}
	}
	s := serverOnPostgres{Main: store(main, 40), Visibility: store(visibility, 10), Dynamic: filepath.Join(dir, "dynamic.yaml")}
	if err := errors.Join(b.makeSchema(ctx, s.Main, "temporal"), b.makeSchema(ctx, s.Visibility, "visibility")); err != nil {
		return nil, "", err
	}
	if s.ports, err = freePorts(serverPorts); err != nil {
		return nil, "", err
	}
	if err := errors.Join(writeDynamic(s.Dynamic, eager), s.writeConfig(filepath.Join(dir, "config", "bench.yaml"))); err != nil {
		return nil, "", err
	}
	var pid int
	keeper, err := startRole(ctx, roleKeeper, task{
		Command: []string{b.server, "--root", dir, "--config", "config", "--env", "bench", "start"},
		Log:     filepath.Join(dir, "temporal.log"),
	}, &pid)
	if err != nil {
		return nil, "", err
	}
	keeper.pid = pid
	return keeper, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port(0))), nil
}

func (b temporalBinaries) makeSchema(ctx context.Context, store sqlStore, name string) error {
	host, port, err := net.SplitHostPort(store.Address)
	if err != nil {
		return err
	}
	for _, step := range [][]string{
		{"setup-schema", "-v", "0.0"},
		{"update-schema", "-d", filepath.Join(b.schema, name, "versioned")},
	} {
		args := append([]string{"--plugin", "postgres12", "--ep", host, "-p", port, "-u", store.User, "--pw", store.Password, "--db", store.Database}, step...)
		if output, err := exec.CommandContext(ctx, b.sql, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("temporal's schema, %s: %w\n%s", step[0], err, output)
		}
	}
	return nil
}

func (s serverOnPostgres) writeConfig(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	parsed := template.Must(template.New("config").Parse(serverConfig))
	return errors.Join(parsed.Execute(file, s), file.Close())
}

func writeDynamic(path string, eager bool) error {
	return os.WriteFile(path, fmt.Appendf(nil, "system.enableActivityEagerExecution:\n  - value: %t\n", eager), 0o600)
}

// Temporal keeps its ports in Postgres as a smallint.
const (
	lowestPort  = 10000
	highestPort = 32767
	portTries   = 1000
)

// freePorts returns ports of the loopback that nobody listens on at this moment.
func freePorts(n int) (ports []int, err error) {
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer listener.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, lowestPort, highestPort)
}

// prepareNamespace makes the namespace and the search attributes unless they are there,
// and returns once a workflow can be started with them.
func prepareNamespace(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	c, err := client.NewLazyClient(client.Options{HostPort: address, Logger: quiet()})
	if err != nil {
		return err
	}
	defer c.Close()
	steps := []func() error{
		func() error { _, err := c.CheckHealth(ctx, nil); return err },
		func() error { return registerNamespace(ctx, c) },
		func() error {
			_, err := workflows.RegisterSearchAttributes(ctx, c, client.DefaultNamespace)
			return err
		},
		func() error { return startProbe(ctx, c) },
	}
	for _, step := range steps {
		if err := untilDone(ctx, step); err != nil {
			return fmt.Errorf("prepare temporal: %w", err)
		}
	}
	return nil
}

func registerNamespace(ctx context.Context, c client.Client) error {
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: client.DefaultNamespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if _, there := errors.AsType[*serviceerror.NamespaceAlreadyExists](err); there {
		return nil
	}
	return err
}

// startProbe starts a workflow that nobody runs, with the search attributes, and ends it.
func startProbe(ctx context.Context, c client.Client) error {
	ref := onejob.Reference{Owner: "bench", Key: fmt.Sprint(time.Now().UnixNano()), Kind: kindName, Provider: providerName}
	if _, err := (workflows.Runs{Client: c, TaskQueue: "bench-probe"}).Start(ctx, ref); err != nil {
		return err
	}
	return c.TerminateWorkflow(ctx, onejob.WorkflowID(ref.Owner, ref.Key), "", "it was a probe")
}

func untilDone(ctx context.Context, step func() error) error {
	for {
		err := step()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(300 * time.Millisecond):
		}
	}
}
