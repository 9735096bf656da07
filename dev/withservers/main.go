// Withservers runs a command with a throwaway Temporal and Postgres, started for it
// alone (or those that the environment names), and stops them after it.
//
//	go run ./dev/withservers [--headless] -- COMMAND ARGUMENT…
//
// The command finds them by DATABASE_URL, TEMPORAL_ADDRESS and the other variables of
// [dev.Servers.Environ]. Its exit code is passed on; 128 and the signal's number if a
// signal ended it; 125 if it could not be run. An interrupt, SIGTERM or the death of the
// program that started withservers ends the command with all its children, and then the
// servers. A terminal is not passed on as standard input.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onejob/onejob/dev"
	"github.com/onejob/onejob/dev/internal/child"
)

const (
	exitUsage       = 2
	exitFailed      = 125 // as of env and nohup: the command was not run
	exitInterrupted = 130 // we were told to end, and the command did so without an error

	stopPatience   = 20 * time.Second
	orphanInterval = time.Second
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	flags := flag.NewFlagSet("withservers", flag.ContinueOnError)
	headless := flags.Bool("headless", false, "no Temporal Web UI")
	if err := flags.Parse(args); err != nil {
		return exitUsage
	}
	if flags.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "withservers: no command: withservers [--headless] -- COMMAND ARGUMENT…")
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), endings()...)
	defer stop()
	ctx, ended := untilOrphaned(ctx)
	defer ended()
	code, err := runWithServers(ctx, *headless, flags.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
	}
	return code
}

// endings are the signals that end the run. A SIGHUP that nohup had ignored stays so.
func endings() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func runWithServers(ctx context.Context, headless bool, command []string) (code int, err error) {
	servers, err := dev.Start(ctx, dev.Options{Throwaway: true, Headless: headless})
	if err != nil {
		return exitFailed, err
	}
	defer func() {
		patience, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		err = errors.Join(err, servers.Stop(patience))
	}()
	return runCommand(ctx, command, environ(servers))
}

// runCommand runs the command in a group of its own and leaves nothing of it behind.
func runCommand(ctx context.Context, command, environ []string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input(), os.Stdout, os.Stderr
	err := child.Run(ctx, cmd)
	if cmd.ProcessState == nil {
		return exitFailed, err
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	if ctx.Err() != nil && status.ExitStatus() == 0 {
		return exitInterrupted, context.Cause(ctx)
	}
	return status.ExitStatus(), nil
}

// input is the standard input unless that is a terminal: the command, in a group of its
// own, would be suspended when it read one.
func input() io.Reader {
	info, err := os.Stdin.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return nil
	}
	return os.Stdin
}

// environ is this program's environment with the servers'. Credentials for another
// Temporal are left out when the server is our own.
func environ(servers *dev.Servers) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if servers.Temporal.External() || !strings.HasPrefix(variable, "TEMPORAL_") {
			kept = append(kept, variable)
		}
	}
	return append(kept, servers.Environ()...)
}

var errOrphaned = errors.New("the program that started withservers has ended")

// untilOrphaned cancels the context when the parent of this process ends: `go run` dies
// of a SIGTERM and does not pass it on. The function ends the watch.
func untilOrphaned(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	parent := os.Getppid()
	watch.Go(func() {
		ticker := time.NewTicker(orphanInterval)
		defer ticker.Stop()
		for os.Getppid() == parent {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		cancel(errOrphaned)
	})
	return ctx, func() { cancel(nil); watch.Wait() }
}
