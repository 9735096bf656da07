package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/dev/internal/child"
)

const (
	superuser        = "postgres"
	postgresPatience = 2 * time.Minute // for a start, which may have to recover
	firstPoll        = 10 * time.Millisecond
	lastPoll         = 200 * time.Millisecond
)

// errPortLost means that another process took the port before the server did.
var errPortLost = errors.New("the port was taken by another process")

// cluster is one data folder with all that is needed to run a server on it.
//
//	dir/data          the data, of the account
//	dir/postgres.log  the output of initdb and of every start
//	dir/lock          held while this process uses the folder
type cluster struct {
	dir       string
	bin       string // folder of the server binaries
	account   account
	throwaway bool
	temporary bool
	log       serverLog
	lock      folderLock
}

// openCluster takes the folder for itself and makes the data in it unless it is there.
func openCluster(ctx context.Context, opts PostgresOptions, progress *progress) (*cluster, error) {
	account, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	c := &cluster{account: account, throwaway: opts.Throwaway, temporary: opts.DataDir == ""}
	if err := c.takeFolder(opts.DataDir); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, progress); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cluster) takeFolder(dataDir string) (err error) {
	if c.temporary {
		c.dir, err = temporaryFolder(c.account, "onejob-postgres")
	} else {
		c.dir, err = persistentFolder(c.account, dataDir, "postgres")
	}
	if err != nil {
		return err
	}
	if err := os.Chmod(c.dir, 0o755); err != nil {
		return err
	}
	c.log = serverLog{filepath.Join(c.dir, "postgres.log")}
	c.lock, err = tryLock(filepath.Join(c.dir, lockName))
	return err
}

func (c *cluster) prepare(ctx context.Context, progress *progress) error {
	version, err := c.dataVersion()
	if err != nil {
		return err
	}
	if c.bin, err = postgresBinaries(ctx, c.account, version, progress); err != nil {
		return err
	}
	if c.account.switched {
		progress.printf("postgres runs as the account %s, in %s", c.account.name, c.dir)
	}
	if version == "" {
		return c.initialize(ctx)
	}
	return c.clearStaleLock(ctx)
}

// close gives the folder up, and removes it when it is temporary.
func (c *cluster) close() error {
	defer c.lock.release()
	if !c.temporary {
		return nil
	}
	return os.RemoveAll(c.dir)
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// initialize makes the data under another name first, so that an interrupted try is
// never taken for a whole one.
func (c *cluster) initialize(ctx context.Context) error {
	unfinished := c.data() + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := c.account.makeFolder(unfinished); err != nil {
		return err
	}
	args := []string{"-D", unfinished, "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale"}
	if c.throwaway {
		args = append(args, "--no-sync")
	}
	output, begin, err := c.log.open()
	if err != nil {
		return err
	}
	defer output.Close()
	if err := child.Run(ctx, c.command(output, "initdb", args...)); err != nil {
		return c.log.failure(begin, fmt.Errorf("initdb: %w", err))
	}
	return os.Rename(unfinished, c.data())
}

// start starts the server and returns when it answers; otherwise it has ended again.
func (c *cluster) start(ctx context.Context, port int, url string) (*child.Process, error) {
	output, begin, err := c.log.open()
	if err != nil {
		return nil, err
	}
	defer output.Close()
	process, err := child.Start(c.command(output, "postgres", c.settings(port)...), syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, postgresPatience)
	defer cancel()
	err = awaitReady(ctx, process, func(ctx context.Context) error { return c.answers(ctx, url) })
	if err == nil {
		return process, nil
	}
	ended, end := context.WithTimeout(context.Background(), killGrace)
	defer end()
	_ = process.Stop(ended, syscall.SIGQUIT)
	if c.log.lostPort(begin) {
		err = errors.Join(errPortLost, err)
	}
	return nil, c.log.failure(begin, err)
}

// settings keeps the server to this machine's loopback, without a socket in the file
// system. Throwaway leaves synchronous_commit on: the processes may be killed, and what
// they had acknowledged must be there after the next start.
func (c *cluster) settings(port int) []string {
	args := []string{"-D", c.data(), "-p", strconv.Itoa(port)}
	values := []string{
		"listen_addresses=127.0.0.1", "unix_socket_directories=",
		"max_connections=300", "shared_buffers=128MB",
		"timezone=UTC", "log_timezone=UTC", "lc_messages=C",
		"logging_collector=off", "log_destination=stderr",
	}
	if c.throwaway {
		values = append(values, "fsync=off", "full_page_writes=off")
	}
	for _, value := range values {
		args = append(args, "-c", value)
	}
	return args
}

// command is a command of the server's binaries, as the account, without the settings
// that PG variables of this process's environment would make.
func (c *cluster) command(output *os.File, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = environWithout("PG", "LC_ALL=C", "TZ=UTC")
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.account.credential()}
	return cmd
}

// answers checks that it is this cluster's server which answers, not one which took
// the port.
func (c *cluster) answers(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "show data_directory").Scan(&dir); err != nil {
		return err
	}
	if dir != c.data() {
		return fmt.Errorf("the server on this port has its data in %s", dir)
	}
	return nil
}

// awaitReady asks check, at growing intervals, until it succeeds, the process ends, or
// ctx is done.
func awaitReady(ctx context.Context, process *child.Process, check func(context.Context) error) error {
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-process.Exited():
			return fmt.Errorf("the server ended before it was ready (%s)", process.State())
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for the server: %w", context.Cause(ctx), err)
		case <-time.After(wait):
		}
	}
}
