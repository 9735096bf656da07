package main

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev"
)

const stopPatience = 20 * time.Second

// localConfig is the configuration of the simulated provider.
//
//go:embed local.yaml
var localConfig []byte

// withServers starts the servers, makes them this process's and its children's by the
// environment, and calls use. It stops them after it.
func withServers(ctx context.Context, options dev.Options, use func(*dev.Servers) error) error {
	servers, err := dev.Start(ctx, options)
	if ctx.Err() != nil {
		return context.Canceled
	}
	if err != nil {
		return err
	}
	for _, variable := range environ(servers) {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return errors.Join(err, stopServers(servers))
		}
	}
	return errors.Join(use(servers), stopServers(servers))
}

func stopServers(servers *dev.Servers) error {
	patience, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	return servers.Stop(patience)
}

// environ is what a program needs in its environment to use the servers. What the
// environment says of another Temporal is emptied when this one is our own.
func environ(servers *dev.Servers) []string {
	var variables []string
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if !servers.Temporal.External() && value != "" && strings.HasPrefix(name, "TEMPORAL_") {
			variables = append(variables, name+"=")
		}
	}
	for _, variable := range servers.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		variables = append(withoutVariable(variables, name), variable)
	}
	return variables
}

func withoutVariable(variables []string, name string) (kept []string) {
	for _, variable := range variables {
		if !strings.HasPrefix(variable, name+"=") {
			kept = append(kept, variable)
		}
	}
	return kept
}

var plainValue = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./?-]*$`)

// exports writes the variables as lines that a shell takes.
func exports(w io.Writer, variables []string) {
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if !plainValue.MatchString(value) {
			value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		}
		io.WriteString(w, "export "+name+"="+value+"\n")
	}
}

// lockFolder takes the folder for this process, until it ends.
func lockFolder(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(onejob.Errorf("", "the data folder %s is in use: stop the other 'onejob dev', or choose another --data-dir", folder), lock.Close())
	}
	return lock, nil
}

// untilOrphaned returns a context that ends when stdin does.
func untilOrphaned(ctx context.Context, stdin io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the process
		defer cancel()
		_, _ = io.Copy(io.Discard, stdin)
	}()
	return ctx
}

// writeFile writes a file at once: whoever sees it sees all of it.
func writeFile(path string, text []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = draft.Write(text)
	err = errors.Join(err, draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}
