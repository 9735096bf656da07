package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownerVariable makes the test binary the owner of servers: it starts them, writes their
// process ids as one line of JSON, and waits to be killed.
const ownerVariable = "ONEJOB_DEV_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		os.Exit(ownServers())
	}
	os.Exit(m.Run())
}

func ownServers() int {
	servers, err := Start(context.Background(), Options{Own: true, Throwaway: true, Headless: true, Log: io.Discard})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	pids := []int{servers.Postgres.PID(), servers.Temporal.PID()}
	if err := json.NewEncoder(os.Stdout).Encode(pids); err != nil {
		return 1
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until our own owner ends
	return 0
}

func TestServersDieWithTheirOwner(t *testing.T) {
	t.Parallel()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerVariable+"=1")
	owner.Stderr = os.Stderr
	if _, err := owner.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	if err := json.NewDecoder(output).Decode(&pids); err != nil {
		t.Fatal(err)
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return hasEnded(pid) })
	}
}

// hasEnded tells whether no process has the id, or only one that nobody has waited for.
func hasEnded(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	return len(commandLine(pid)) == 0
}

// eventually waits until the condition holds, up to a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !holds() {
		if pause(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

func TestTwoPairsOfServersAtOnceDoNotCollide(t *testing.T) {
	t.Parallel()
	var pairs [2]*Servers
	failures := make(chan error, len(pairs))
	for i := range pairs {
		go func() {
			servers, err := Start(t.Context(), Options{Own: true, Throwaway: true, Log: io.Discard})
			pairs[i] = servers
			failures <- err
		}()
	}
	for range pairs {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, servers := range pairs {
		if servers == nil {
			continue
		}
		for _, address := range []string{servers.Postgres.URL(), servers.Temporal.Address(), servers.Temporal.UIAddress()} {
			if address == "" || seen[address] {
				t.Errorf("address %q is empty or there twice", address)
			}
			seen[address] = true
		}
		if err := servers.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		for _, pid := range []int{servers.Postgres.PID(), servers.Temporal.PID()} {
			if !hasEnded(pid) {
				t.Errorf("process %d is there after Stop", pid)
			}
		}
	}
}

// failOnceReady is a Temporal CLI that fails when the file is there.
const failOnceReady = `#!/bin/sh
[ "$1" != --version ] || exec echo temporal version 1
until [ -e "$READY_FILE" ]; do sleep 0.01; done
echo out of order
exit 1
`

// readyWriter makes the file when the progress says that Postgres is ready.
type readyWriter string

func (file readyWriter) Write(line []byte) (int, error) {
	if strings.Contains(string(line), "postgres is ready") {
		return len(line), os.WriteFile(string(file), nil, 0o644)
	}
	return len(line), nil
}

func TestFailureOfOneServerStopsTheOtherThoughItIsReady(t *testing.T) {
	dir := dataFolder(t)
	ready, cli := filepath.Join(dir, "ready"), filepath.Join(dir, "temporal-cli")
	if err := os.WriteFile(cli, []byte(failOnceReady), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("READY_FILE", ready)
	t.Setenv("ONEJOB_TEMPORAL_CLI", cli)
	_, err := Start(t.Context(), Options{Own: true, DataDir: dir, Throwaway: true, Log: readyWriter(ready)})
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Fatalf("Start = %v, want what the CLI said", err)
	}
	startPostgres(t, PostgresOptions{DataDir: dir, Throwaway: true}) // the folder is free
}

func mustMake(t *testing.T, dir, name string) string {
	t.Helper()
	path := dir + "/" + name
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// afterTest is a context for cleaning up, when t.Context is done.
func afterTest() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}
