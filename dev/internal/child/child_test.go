package child

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// script is a shell script whose output is read until it says "ready".
func script(t *testing.T, text string) (cmd *exec.Cmd, ready func(), ended func()) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	cmd = exec.Command("sh", "-c", text)
	cmd.Stdout = writer
	output := bufio.NewReader(reader)
	ready = func() {
		if line, err := output.ReadString('\n'); line != "ready\n" {
			t.Errorf("the script says %q, %v", line, err)
		}
	}
	ended = func() {
		writer.Close()
		_, _ = io.Copy(io.Discard, output)
	}
	return cmd, ready, ended
}

func TestStopUsesTheNextSignalWhenOneIsIgnored(t *testing.T) {
	t.Parallel()
	cmd, ready, _ := script(t, `trap "" TERM; trap "exit 9" INT; echo ready; while :; do sleep 0.01; done`)
	p, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	ready()
	patience, cancel := context.WithCancel(t.Context())
	cancel() // no patience at all
	if err := p.Stop(patience, syscall.SIGTERM, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := p.State(); got != "exit status 9" {
		t.Errorf("it ended with %s", got)
	}
	if err := p.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}

func TestRunLeavesNothingOfTheGroup(t *testing.T) {
	t.Parallel()
	cmd, ready, ended := script(t, "sleep 1000 & echo ready; exit 3")
	err := Run(t.Context(), cmd)
	if exited, ok := errors.AsType[*exec.ExitError](err); !ok || exited.ExitCode() != 3 {
		t.Errorf("Run = %v, want exit status 3", err)
	}
	ready()
	ended() // the sleeping child has the output too
}

func TestRunEndsTheGroupWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	cmd, ready, ended := script(t, "sleep 1000 & echo ready; sleep 1000")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	result := make(chan error, 1)
	go func() { result <- Run(ctx, cmd) }()
	ready()
	cancel(enough)
	if err := <-result; !errors.Is(err, enough) {
		t.Errorf("Run = %v, want the cause", err)
	}
	ended()
}
