package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The server, its SQL tool and its schema come from one module, which tools/server pins.
const (
	serverModule  = "go.temporal.io/server"
	serverCommand = serverModule + "/cmd/server"
	sqlCommand    = serverModule + "/cmd/tools/sql"
)

// temporalBinaries is what a Temporal server is made of.
type temporalBinaries struct {
	version     string
	server, sql string // paths of the commands
	schema      string // folder of the schema for Postgres
}

// builtTemporal returns the commands, built unless that was done before.
func builtTemporal(ctx context.Context) (temporalBinaries, error) {
	pinned, err := pinnedFolder(ctx)
	if err != nil {
		return temporalBinaries{}, err
	}
	module, err := downloadModule(ctx, pinned)
	if err != nil {
		return temporalBinaries{}, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return temporalBinaries{}, err
	}
	path := func(name string) string {
		return filepath.Join(cache, "onejob", "bin", fmt.Sprintf("%s-%s-%s-%s", name, module.Version, runtime.GOOS, runtime.GOARCH))
	}
	b := temporalBinaries{
		version: module.Version, server: path("temporal-server"), sql: path("temporal-sql-tool"),
		schema: filepath.Join(module.Dir, "schema", "postgresql", "v12"),
	}
	if err := build(ctx, pinned, sqlCommand, b.sql); err != nil {
		return b, err
	}
	return b, build(ctx, pinned, serverCommand, b.server)
}

// pinnedFolder is the folder of the module that pins the server.
func pinnedFolder(ctx context.Context) (string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	folder := filepath.Join(filepath.Dir(strings.TrimSpace(string(output))), "tools", "server")
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
		return "", fmt.Errorf("run it inside the repository, or name a server in TEMPORAL_ADDRESS: %w", err)
	}
	return folder, nil
}

type module struct{ Version, Dir, Error string }

func downloadModule(ctx context.Context, pinned string) (m module, err error) {
	cmd := inModule(exec.CommandContext(ctx, "go", "mod", "download", "-json", serverModule), pinned)
	output, err := cmd.Output()
	if jsonErr := json.Unmarshal(output, &m); jsonErr == nil && m.Error != "" {
		err = fmt.Errorf("%s", m.Error)
	}
	if err != nil {
		return m, fmt.Errorf("download %s: %w", serverModule, err)
	}
	return m, nil
}

// inModule lets the go command work in the folder's module, whatever the environment says.
func inModule(cmd *exec.Cmd, folder string) *exec.Cmd {
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	return cmd
}

const progressEvery = 15 * time.Second

// build builds the command beside the target and renames what is whole.
func build(ctx context.Context, pinned, command, target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(target), "build-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	progress("building %s of the pinned version: once only, about 5 minutes on two cores", command)
	defer reportUntilDone(command)()
	built := filepath.Join(work, "built")
	cmd := inModule(exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", built, command), pinned)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", command, err, output)
	}
	return os.Rename(built, target)
}

// reportUntilDone says now and then that the build goes on, until the returned function
// is called.
func reportUntilDone(command string) (done func()) {
	began, over, reported := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reported)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				progress("still building %s, %s", command, time.Since(began).Round(time.Second))
			}
		}
	}()
	return func() {
		close(over)
		<-reported
	}
}
