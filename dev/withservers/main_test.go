package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programVariable makes the test binary the program.
const programVariable = "ONEJOB_WITHSERVERS_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is withservers with servers of its own, or, when external, with ones that the
// environment names and nobody runs.
func program(t *testing.T, external bool, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(environWithoutServers(), programVariable+"=1")
	if external {
		cmd.Env = append(cmd.Env, "DATABASE_URL=postgres://none", "TEMPORAL_ADDRESS=none:1", "TEMPORAL_API_KEY=k")
	}
	return cmd
}

func environWithoutServers() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "DATABASE_URL=") && !strings.HasPrefix(variable, "TEMPORAL_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exited, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exited.ExitCode()
}

func TestExitCodeIsPassedOn(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 128 + 9} {
		err := program(t, true, "--", "sh", "-c", script).Run()
		if got := exitCode(t, err); got != want {
			t.Errorf("%q: exit code %d, want %d", script, got, want)
		}
	}
	if got := exitCode(t, program(t, true, "--", "/no/such/command").Run()); got != exitFailed {
		t.Errorf("no such command: exit code %d, want %d", got, exitFailed)
	}
	if got := exitCode(t, program(t, true).Run()); got != exitUsage {
		t.Errorf("no command: exit code %d, want %d", got, exitUsage)
	}
}

func TestExternalServersAndTheirCredentialsArePassedOn(t *testing.T) {
	t.Parallel()
	output, err := program(t, true, "--", "sh", "-c", "echo $DATABASE_URL $TEMPORAL_ADDRESS $TEMPORAL_API_KEY").Output()
	if err != nil || string(output) != "postgres://none none:1 k\n" {
		t.Errorf("the command has %q, %v", output, err)
	}
}

// waitingCommand writes the URL of its Postgres, then waits, as does a child of it.
var waitingCommand = []string{"--headless", "--", "sh", "-c", `echo "$DATABASE_URL"; sleep 1000 & sleep 1000`}

func TestSIGTERMStopsTheCommandAndTheServers(t *testing.T) {
	t.Parallel()
	cmd := program(t, false, waitingCommand...)
	output, address := startWaiting(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, output)
	if got, want := exitCode(t, cmd.Wait()), 128+int(syscall.SIGTERM); got != want {
		t.Errorf("exit code %d, want %d", got, want)
	}
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Errorf("postgres still listens on %s", address)
	}
}

func TestDeathOfTheParentStopsTheCommandAndTheServers(t *testing.T) {
	t.Parallel()
	inner := program(t, false, waitingCommand...)
	parent := exec.Command("sh", append([]string{"-c", `"$@"; true`, "sh"}, inner.Args...)...)
	parent.Env = inner.Env
	output, address := startWaiting(t, parent)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, output)
	_ = parent.Wait()
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Errorf("postgres still listens on %s", address)
	}
}

// startWaiting starts the program and returns when its command runs: its output, and the
// address of its Postgres.
func startWaiting(t *testing.T, cmd *exec.Cmd) (output *bufio.Reader, postgres string) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	output = bufio.NewReader(reader)
	for {
		line, err := output.ReadString('\n')
		if err != nil {
			t.Fatalf("the command never ran: %v", err)
		}
		if strings.HasPrefix(line, "postgres://") {
			parsed, err := url.Parse(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			return output, parsed.Host
		}
	}
}

// awaitEnd waits until no process is left which could write to the output.
func awaitEnd(t *testing.T, output *bufio.Reader) {
	t.Helper()
	if _, err := io.Copy(io.Discard, output); err != nil {
		t.Fatal(err)
	}
}
