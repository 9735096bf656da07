package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/onejob/onejob/dev/internal/child"
)

// ErrExternal means that the server was started by somebody else, so that it is not
// ours to restart or to kill.
var ErrExternal = errors.New("the server is not ours")

// killGrace is how long Postgres gets for an immediate shutdown before SIGKILL.
const killGrace = 10 * time.Second

// PostgresOptions says which Postgres [StartPostgres] starts. The zero value is a
// temporary server with durable settings.
type PostgresOptions struct {
	DataDir   string    // its state survives in this folder; empty: a temporary one, removed by Stop
	Throwaway bool      // no fsync: survives the death of its processes, not of the machine
	Own       bool      // start one even when DATABASE_URL names one
	Log       io.Writer // progress, in lines; nil: os.Stderr
}

// Postgres is a running server. Its methods are safe for concurrent use.
type Postgres struct {
	cluster *cluster // nil: external
	url     string
	port    int

	mu      sync.Mutex // one change of the process at a time
	process *child.Process
}

// StartPostgres returns a server which answers queries: the one that DATABASE_URL
// names, or one that it starts, by installed binaries or else by downloaded ones. ctx
// bounds the start only; the server runs until Stop.
//
// It fails with [ErrInUse] when another server has opts.DataDir, and otherwise with
// the last lines of the server's log.
func StartPostgres(ctx context.Context, opts PostgresOptions) (*Postgres, error) {
	progress, began := newProgress(opts.Log), time.Now()
	if url := os.Getenv("DATABASE_URL"); url != "" && !opts.Own {
		progress.printf("postgres is the one that DATABASE_URL names: unset it for one of our own")
		return &Postgres{url: url}, nil
	}
	cluster, err := openCluster(ctx, opts, progress)
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	pg := &Postgres{cluster: cluster}
	if err := pg.startOnFreePort(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), cluster.close())
	}
	progress.printf("postgres is ready on %s after %s", loopback(pg.port), time.Since(began).Round(time.Millisecond))
	return pg, nil
}

// URL is the connection string of the server's first database.
func (pg *Postgres) URL() string { return pg.url }

// External tells that the server was there before and outlives Stop.
func (pg *Postgres) External() bool { return pg.cluster == nil }

// Dir is the folder with the server's data and its log; empty when it is external.
func (pg *Postgres) Dir() string {
	if pg.External() {
		return ""
	}
	return pg.cluster.dir
}

// PID is the id of the server's first process, the postmaster; 0 when it is external.
func (pg *Postgres) PID() int {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if pg.process == nil {
		return 0
	}
	return pg.process.PID()
}

// Stop shuts the server down in order: connections are cut, and all is written out. If
// ctx ends first it is killed. A temporary server's folder is removed. An external
// server is left alone; a second Stop does nothing.
func (pg *Postgres) Stop(ctx context.Context) error {
	if pg.External() {
		return nil
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	return errors.Join(pg.stopProcess(ctx), pg.cluster.close())
}

// Restart shuts the server down unless it is down already (see [Postgres.Kill]), and
// starts it again with the same data on the same port. It fails with [ErrExternal] when
// the server is not ours.
func (pg *Postgres) Restart(ctx context.Context) error {
	if pg.External() {
		return ErrExternal
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	if err := pg.stopProcess(ctx); err != nil {
		return fmt.Errorf("restart postgres: %w", err)
	}
	if err := pg.start(ctx, pg.port); err != nil {
		return fmt.Errorf("restart postgres: %w", err)
	}
	return nil
}

// Kill ends all of the server's processes at once, as a crash does: nothing is written
// out, and the next start recovers from the log of commits. It fails with [ErrExternal]
// when the server is not ours.
func (pg *Postgres) Kill() error {
	if pg.External() {
		return ErrExternal
	}
	pg.mu.Lock()
	defer pg.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	return pg.process.Stop(ctx, syscall.SIGQUIT)
}

// stopProcess asks for Postgres's fast shutdown (SIGINT), then its immediate one.
func (pg *Postgres) stopProcess(ctx context.Context) error {
	if err := pg.process.Stop(ctx, syscall.SIGINT, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

func (pg *Postgres) startOnFreePort(ctx context.Context) error {
	var err error
	for range portTries {
		var port int
		if port, err = freePort(); err != nil {
			return err
		}
		if err = pg.start(ctx, port); !errors.Is(err, errPortLost) {
			return err
		}
	}
	return err
}

func (pg *Postgres) start(ctx context.Context, port int) error {
	url := fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, port)
	process, err := pg.cluster.start(ctx, port, url)
	if err != nil {
		return err
	}
	pg.process, pg.port, pg.url = process, port, url
	return nil
}
