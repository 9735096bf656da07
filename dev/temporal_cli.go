package dev

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/onejob/onejob/dev/internal/child"
)

// ErrNoCLI means that there is no Temporal CLI on this machine and no Go to build it.
var ErrNoCLI = errors.New("no temporal CLI found, and no go command to build it: install one of them, set ONEJOB_TEMPORAL_CLI to a CLI, or TEMPORAL_ADDRESS to a server")

// The module that pins the CLI is tools in the project; these copies are for a program
// which is built already and runs elsewhere. A test holds them equal.
var (
	//go:embed pinned/tools.mod
	pinnedMod []byte
	//go:embed pinned/tools.sum
	pinnedSum []byte
)

const (
	cliPackage    = "github.com/temporalio/cli/cmd/temporal"
	cliVersion    = "v1.5.1" // the one in pinnedMod
	progressEvery = 5 * time.Second
)

// findCLI is the path of a Temporal CLI that works: path, else the one that the
// environment names, else the one in PATH, else one which it builds.
func findCLI(ctx context.Context, path string, progress *progress) (string, error) {
	if path == "" {
		path = os.Getenv("ONEJOB_TEMPORAL_CLI")
	}
	if path != "" {
		return path, checkCLI(ctx, path)
	}
	if found, err := exec.LookPath("temporal"); err == nil {
		err := checkCLI(ctx, found)
		if err == nil {
			return found, nil
		}
		progress.printf("%v; building the CLI instead", err)
	}
	return builtCLI(ctx, progress)
}

// checkCLI runs the CLI, as a file of that name may be another program.
func checkCLI(ctx context.Context, path string) error {
	output, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s does not run: %w", path, err)
	}
	if !strings.HasPrefix(string(output), "temporal version") {
		return fmt.Errorf("%s is not the Temporal CLI: it answers %q", path, lastLines(string(output), 1))
	}
	return nil
}

// builtCLI builds the CLI unless that was done before.
func builtCLI(ctx context.Context, progress *progress) (string, error) {
	cache, err := cacheFolder(account{})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("temporal-%s-%s-%s", cliVersion, runtime.GOOS, runtime.GOARCH)
	return cliBuild{
		target:   filepath.Join(cache, "bin", name),
		progress: progress,
		every:    progressEvery,
		began:    time.Now(),
	}.binary(ctx)
}

// cliBuild is one build of the CLI from the pinned module.
type cliBuild struct {
	target   string
	progress *progress
	every    time.Duration // between two lines of progress
	began    time.Time
}

func (b cliBuild) binary(ctx context.Context) (string, error) {
	if isExecutable(b.target) {
		return b.target, nil
	}
	if err := os.MkdirAll(filepath.Dir(b.target), 0o755); err != nil {
		return "", err
	}
	gocmd, err := exec.LookPath("go")
	if err != nil {
		return "", ErrNoCLI
	}
	lock, err := awaitLock(ctx, b.target+".lock", func() {
		b.progress.printf("another process builds the temporal CLI: waiting for it")
	})
	if err != nil {
		return "", fmt.Errorf("wait for the build of the temporal CLI: %w", err)
	}
	defer lock.release()
	if isExecutable(b.target) {
		return b.target, nil
	}
	return b.target, b.build(ctx, gocmd)
}

// build builds in a folder beside the target, and renames what is whole.
func (b cliBuild) build(ctx context.Context, gocmd string) error {
	work, err := os.MkdirTemp(filepath.Dir(b.target), "build-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "go.mod"), pinnedMod, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "go.sum"), pinnedSum, 0o644); err != nil {
		return err
	}
	built := filepath.Join(work, "temporal")
	if err := b.compile(ctx, work, gocmd, built); err != nil {
		return err
	}
	if err := checkCLI(ctx, built); err != nil {
		return err
	}
	return os.Rename(built, b.target)
}

func (b cliBuild) compile(ctx context.Context, work, gocmd, built string) error {
	cmd := exec.Command(gocmd, "build", "-v", "-ldflags=-s -w", "-o", built, cliPackage)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	output := &buildOutput{}
	cmd.Stdout, cmd.Stderr = output, output

	done := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { b.report(done, output) })
	err := child.Run(ctx, cmd)
	close(done)
	reporter.Wait()
	if err != nil {
		return fmt.Errorf("build the temporal CLI: %w\n%s", err, lastLines(output.text(), 15))
	}
	b.progress.printf("built the temporal CLI in %s: %s", time.Since(b.began).Round(time.Second), b.target)
	return nil
}

// report says every few seconds how far the build is, until done is closed.
func (b cliBuild) report(done <-chan struct{}, output *buildOutput) {
	b.progress.printf("building the temporal CLI %s: once only, about 5 minutes on two cores", cliVersion)
	ticker := time.NewTicker(b.every)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			b.progress.printf("building the temporal CLI (once only), %s: %s",
				time.Since(b.began).Round(time.Second), output.state())
		}
	}
}

// buildOutput collects what go build writes: the package that it is at, and its errors.
type buildOutput struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *buildOutput) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(text)
}

func (o *buildOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// state is what the build is at: the last line says which package.
func (o *buildOutput) state() string {
	text := o.text()
	if text == "" {
		return "looking at what is built already"
	}
	return fmt.Sprintf("%d packages, now %s", strings.Count(text, "\n"), lastLines(text, 1))
}
