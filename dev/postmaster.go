package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dyingPatience is how long the postmaster of an owner that was killed gets to end.
const dyingPatience = 3 * time.Second

// dataVersion is the major version of Postgres that made the data; empty when there is
// none yet.
func (c *cluster) dataVersion() (string, error) {
	version, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(version)), err
}

// clearStaleLock removes the postmaster.pid that a postmaster left which did not end in
// order. Postgres itself does so only when no process has that id: after a restart of the
// machine, or in a container, another one often has. It fails with [ErrInUse] when the
// postmaster is alive: somebody else started it, as we hold the folder's lock.
func (c *cluster) clearStaleLock(ctx context.Context) error {
	path := filepath.Join(c.data(), "postmaster.pid")
	pid, err := readPID(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dyingPatience)
	defer cancel()
	for servesData(pid, c.data()) {
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%w: the postgres process %d serves %s: stop it first", ErrInUse, pid, c.data())
		}
	}
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// readPID reads the first line of a postmaster.pid.
func readPID(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("%s does not begin with a process id", path)
	}
	return pid, nil
}

// postmasterOf is the id in the data's postmaster.pid; 0 when there is none.
func postmasterOf(data string) int {
	pid, err := readPID(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	return pid
}

// servesData tells whether a process is alive and may be the postmaster of the data.
func servesData(pid int, data string) bool {
	if pid == 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	return commandServes(commandLine(pid), data)
}

// commandServes reads a command line with care: whatever may be the postmaster of the
// data counts as that, since two of them would destroy it. Other processes of a running
// Postgres have a title like "postgres: walwriter" and do not count.
func commandServes(args []string, data string) bool {
	if len(args) == 0 {
		return false
	}
	if name := filepath.Base(args[0]); name != "postgres" && name != "postmaster" {
		return false
	}
	option := slices.Index(args, "-D")
	if option < 0 || option+1 == len(args) {
		return true
	}
	served := args[option+1]
	return !filepath.IsAbs(served) || realPath(served) == realPath(data)
}

// commandLine is the command line of a process; empty when it has ended.
func commandLine(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil {
		return strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })
	}
	text, err = exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "command=").Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}
