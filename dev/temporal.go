package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/onejob/onejob/dev/internal/child"
)

const (
	defaultNamespace = "default"
	temporalPatience = 2 * time.Minute // for a start
)

// DefaultSearchAttributes are those that the project's workflows set.
var DefaultSearchAttributes = []string{
	"OnejobOwner=Keyword", "OnejobKind=Keyword", "OnejobProvider=Keyword", "OnejobStatus=Keyword",
}

// TemporalOptions says which Temporal [StartTemporal] starts. The zero value is a server
// with a Web UI and data that is thrown away.
type TemporalOptions struct {
	DataDir          string    // its state survives in this folder; empty: in one that is removed
	Namespaces       []string  // made beside "default"
	SearchAttributes []string  // as "Name=Type"; nil: DefaultSearchAttributes
	Headless         bool      // no Web UI
	CLI              string    // path of the Temporal CLI; empty: looked for, or built
	Own              bool      // start one even when TEMPORAL_ADDRESS names one
	Log              io.Writer // progress, in lines; nil: os.Stderr
}

// Temporal is a running server. Its methods are safe for concurrent use.
type Temporal struct {
	address, ui, namespace, cli string

	process   *child.Process // nil: external
	dir       string         // of its log, and of its state unless temporary
	temporary bool
	lock      folderLock
}

// StartTemporal returns a server which answers in all its namespaces: the one that
// TEMPORAL_ADDRESS names (not asked: its credentials are the caller's), or a dev server
// that it starts with the CLI that ONEJOB_TEMPORAL_CLI or PATH names, or else with one
// that it builds, which takes minutes once. ctx bounds the start only; the server runs
// until Stop.
//
// It fails with [ErrNoCLI] when there is no CLI and no Go to build it, with [ErrInUse]
// when another server has opts.DataDir, and otherwise with the last lines of the
// server's log.
func StartTemporal(ctx context.Context, opts TemporalOptions) (*Temporal, error) {
	progress := newProgress(opts.Log)
	if address := os.Getenv("TEMPORAL_ADDRESS"); address != "" && !opts.Own {
		progress.printf("temporal is the one that TEMPORAL_ADDRESS names: unset it for one of our own")
		return externalTemporal(address), nil
	}
	cli, err := findCLI(ctx, opts.CLI, progress)
	if err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	began := time.Now()
	t := &Temporal{namespace: defaultNamespace, cli: cli}
	if err := t.takeFolder(opts.DataDir); err != nil {
		return nil, fmt.Errorf("start temporal: %w", err)
	}
	if err := t.startOnFreePorts(ctx, opts); err != nil {
		return nil, errors.Join(fmt.Errorf("start temporal: %w", err), t.close())
	}
	progress.printf("temporal is ready on %s after %s", t.address, time.Since(began).Round(time.Millisecond))
	return t, nil
}

func externalTemporal(address string) *Temporal {
	t := &Temporal{
		address:   address,
		ui:        os.Getenv("ONEJOB_TEMPORAL_UI"),
		namespace: os.Getenv("TEMPORAL_NAMESPACE"),
		cli:       os.Getenv("ONEJOB_TEMPORAL_CLI"),
	}
	if t.namespace == "" {
		t.namespace = defaultNamespace
	}
	return t
}

// Address is the server's gRPC address, host:port.
func (t *Temporal) Address() string { return t.address }

// UIAddress is the URL of the Web UI; empty when there is none, or it is not known.
func (t *Temporal) UIAddress() string { return t.ui }

// Namespace is the namespace to use unless another was asked for.
func (t *Temporal) Namespace() string { return t.namespace }

// CLI is the path of the Temporal CLI; empty when the server is external and
// ONEJOB_TEMPORAL_CLI is not set.
func (t *Temporal) CLI() string { return t.cli }

// External tells that the server was there before and outlives Stop.
func (t *Temporal) External() bool { return t.process == nil }

// PID is the id of the server's process; 0 when it is external.
func (t *Temporal) PID() int {
	if t.External() {
		return 0
	}
	return t.process.PID()
}

// Stop ends the server in order, or when ctx ends first, at once. An external server
// is left alone; a second Stop does nothing.
func (t *Temporal) Stop(ctx context.Context) error {
	if t.External() {
		return nil
	}
	if err := t.process.Stop(ctx, syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop temporal: %w", err)
	}
	return t.close()
}

// Kill ends the server at once, as a crash does. It fails with [ErrExternal] when the
// server is not ours.
func (t *Temporal) Kill() error {
	if t.External() {
		return ErrExternal
	}
	return t.process.Stop(context.Background(), syscall.SIGKILL)
}

// takeFolder takes the folder for the log, and for the state if it is to last.
func (t *Temporal) takeFolder(dataDir string) (err error) {
	if dataDir == "" {
		t.dir, err = temporaryFolder(account{}, "onejob-temporal")
	} else {
		t.dir, err = persistentFolder(account{}, dataDir, "temporal")
	}
	if err != nil {
		return err
	}
	t.temporary = dataDir == ""
	t.lock, err = tryLock(filepath.Join(t.dir, lockName))
	return err
}

// close gives the folder up, and removes it when it is temporary.
func (t *Temporal) close() error {
	defer t.lock.release()
	if !t.temporary {
		return nil
	}
	return os.RemoveAll(t.dir)
}

func (t *Temporal) startOnFreePorts(ctx context.Context, opts TemporalOptions) error {
	var err error
	for range portTries {
		if err = t.start(ctx, opts); !errors.Is(err, errPortLost) {
			return err
		}
	}
	return err
}

// start makes one try, on ports which are free now.
func (t *Temporal) start(ctx context.Context, opts TemporalOptions) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	uiPort, err := freePort()
	if err != nil {
		return err
	}
	log := serverLog{filepath.Join(t.dir, "temporal.log")}
	output, begin, err := log.open()
	if err != nil {
		return err
	}
	defer output.Close()
	process, err := child.Start(t.command(output, opts, port, uiPort), syscall.SIGKILL)
	if err != nil {
		return err
	}
	t.address, t.process = loopback(port), process
	if !opts.Headless {
		t.ui = "http://" + loopback(uiPort)
	}
	err = t.awaitReady(ctx, log, begin, append([]string{defaultNamespace}, opts.Namespaces...))
	if err == nil {
		return nil
	}
	_ = t.Kill()
	if log.lostPort(begin) {
		err = errors.Join(errPortLost, err)
	}
	return log.failure(begin, err)
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

func (t *Temporal) command(output *os.File, opts TemporalOptions, port, uiPort int) *exec.Cmd {
	args := []string{
		"server", "start-dev", "--log-level", "error",
		"--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		// A file for throwaway data, too: what is in memory is lost with the connection, which the
		// server gives up when a statement outlasts its context.
		"--db-filename", filepath.Join(t.dir, "temporal.db"),
		"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=" + synchronous(opts),
	}
	if opts.Headless {
		args = append(args, "--headless")
	} else {
		args = append(args, "--ui-port", strconv.Itoa(uiPort))
	}
	attributes := opts.SearchAttributes
	if attributes == nil {
		attributes = DefaultSearchAttributes
	}
	args = appendFlag(args, "--search-attribute", attributes)
	args = appendFlag(args, "--namespace", opts.Namespaces)
	cmd := exec.Command(t.cli, args...)
	cmd.Dir = t.dir
	cmd.Env = environWithout("TEMPORAL_")
	cmd.Stdout, cmd.Stderr = output, output
	return cmd
}

// synchronous is SQLite's pragma: data in a folder of the caller's survives the machine, other data
// is thrown away.
func synchronous(opts TemporalOptions) string {
	if opts.DataDir != "" {
		return "1" // normal
	}
	return "0" // off
}

func appendFlag(args []string, flag string, values []string) []string {
	for _, value := range values {
		args = append(args, flag, value)
	}
	return args
}

// awaitReady waits until the server answers in the namespaces. It connects only when the
// process has written that it serves the port: before that another server may do so.
func (t *Temporal) awaitReady(ctx context.Context, log serverLog, begin int64, namespaces []string) error {
	ctx, cancel := context.WithTimeout(ctx, temporalPatience)
	defer cancel()
	serves := regexp.MustCompile(`Server:\s+\S+:` + t.address[len("127.0.0.1:"):] + `\b`)
	return awaitReady(ctx, t.process, func(ctx context.Context) error {
		if !serves.MatchString(log.since(begin)) {
			return errors.New("it has not come up")
		}
		return describeNamespaces(ctx, t.address, namespaces)
	})
}

// quietLogger keeps the SDK's messages from those who wait for a server.
func quietLogger() sdklog.Logger {
	return sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
}

func describeNamespaces(ctx context.Context, address string, namespaces []string) error {
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Logger: quietLogger()})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, name := range namespaces {
		request := &workflowservice.DescribeNamespaceRequest{Namespace: name}
		if _, err := c.WorkflowService().DescribeNamespace(ctx, request); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}
