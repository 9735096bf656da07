package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/dev"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/simulator"
)

// devFlags are what `onejob dev` takes.
type devFlags struct {
	dataDir, config, envFile string
	serversOnly              bool
}

func newDev() *cobra.Command {
	f := &devFlags{}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run all of onejob on this machine, until interrupted",
		Long:  devHelp,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dataDir, "data-dir", "", "folder of the state, which survives (default one in the user's cache folder)")
	flags.StringVar(&f.config, "config", "", "the configuration (default ONEJOB_CONFIG, else onejob.yaml, else an example with a simulated provider)")
	flags.StringVar(&f.envFile, "env-file", "", "file to write the environment to once all is ready")
	flags.BoolVar(&f.serversOnly, "servers-only", false, "no worker and no provider: Temporal, Postgres and the migrations")
	return cmd
}

const devHelp = `Runs Temporal with its Web UI, Postgres, the migrations, a worker and the HTTP door, until
interrupted.
Without a configuration it also runs a simulated provider, so that a job can be started
at once. The state survives in the data folder.

A server that the environment names (TEMPORAL_ADDRESS, DATABASE_URL) is used as it is.`

func (f *devFlags) run(cmd *cobra.Command) error {
	dataDir, err := f.folder()
	if err != nil {
		return err
	}
	lock, err := lockFolder(dataDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := f.removeEnvFile(); err != nil {
		return err
	}
	return withServers(cmd.Context(), dev.Options{DataDir: dataDir, Log: cmd.ErrOrStderr()}, func(servers *dev.Servers) error {
		if _, err := migrateUp(cmd.Context(), false); err != nil {
			return err
		}
		d := &development{devFlags: f, out: cmd.OutOrStdout(), dataDir: dataDir, servers: servers, environ: environ(servers)}
		defer f.removeEnvFile()
		return d.serve(cmd.Context())
	})
}

// folder returns the data folder, made if need be.
func (f *devFlags) folder() (string, error) {
	folder := f.dataDir
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", usagef("no folder for the state: %w: give --data-dir", err)
		}
		folder = filepath.Join(cache, "onejob", "dev")
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	return folder, os.MkdirAll(folder, 0o755)
}

// removeEnvFile removes the file: while it is there, all is ready.
func (f *devFlags) removeEnvFile() error {
	if f.envFile == "" {
		return nil
	}
	err := os.Remove(f.envFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// configured returns the configuration that the user has, "" if none.
func (f *devFlags) configured() string {
	if f.config != "" {
		return f.config
	}
	if path := os.Getenv("ONEJOB_CONFIG"); path != "" {
		return path
	}
	if _, err := os.Stat(config.Path()); err == nil {
		return config.Path()
	}
	return ""
}

// development is what runs beside the servers.
type development struct {
	*devFlags
	out     io.Writer
	dataDir string
	servers *dev.Servers
	environ []string
	group   *errgroup.Group
	ready   []string // addresses, as they are announced
}

// serve runs until ctx ends or something fails.
func (d *development) serve(ctx context.Context) error {
	d.group, ctx = errgroup.WithContext(ctx)
	err := d.start(ctx)
	if err == nil {
		err = d.announce()
	}
	if err == nil {
		<-ctx.Done()
		slog.Info("stopping")
	}
	d.group.Go(func() error { return err }) // ends the others, if it is one
	return d.group.Wait()
}

func (d *development) start(ctx context.Context) error {
	if d.serversOnly {
		return nil
	}
	path := d.configured()
	if path == "" {
		var err error
		if path, err = d.startSimulator(ctx); err != nil {
			return err
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := d.export("ONEJOB_CONFIG", path); err != nil {
		return err
	}
	if err := d.startWorker(ctx); err != nil {
		return err
	}
	return d.startDoor(ctx)
}

// startSimulator starts the simulated provider and returns its configuration.
func (d *development) startSimulator(ctx context.Context) (path string, err error) {
	listener, err := listen(ctx, "127.0.0.1:0", "--listen")
	if err != nil {
		return "", err
	}
	address := "http://" + listener.Addr().String()
	d.group.Go(func() error { return simulator.New(simulator.Options{}).Run(ctx, listener) })
	d.ready = append(d.ready, "simulated provider  "+address)
	path = filepath.Join(d.dataDir, "onejob.yaml")
	return path, errors.Join(d.export("ONEJOB_SIMULATOR", address), writeFile(path, localConfig))
}

func (d *development) startWorker(ctx context.Context) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	var doors workerDoors
	if doors.health, err = listen(ctx, "127.0.0.1:0", "--listen"); err != nil {
		return err
	}
	if doors.callbacks, err = listen(ctx, "127.0.0.1:0", "--listen"); err != nil {
		return errors.Join(err, doors.health.Close())
	}
	c.Worker.CallbackURL = cmp.Or(c.Worker.CallbackURL, "http://"+doors.callbacks.Addr().String())
	d.group.Go(func() error { return runWorker(ctx, c, doors) })
	d.ready = append(d.ready, "worker              http://"+doors.health.Addr().String()+"/readyz and /metrics",
		"callbacks           "+c.Worker.CallbackURL)
	return awaitReady(ctx, doors.health.Addr().String())
}

// The owner and the time of the token that `onejob dev` makes.
const (
	devOwner     = "acme"
	devTokenLife = 24 * time.Hour
)

// startDoor opens the HTTP door, and makes a token to try it with.
func (d *development) startDoor(ctx context.Context) error {
	c, err := loadConfig()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, "127.0.0.1:0", "--listen")
	if err != nil {
		return err
	}
	address := "http://" + listener.Addr().String()
	d.group.Go(func() error { return runDoor(ctx, c, doorListeners{requests: listener}) })
	d.ready = append(d.ready, "http door           "+address+"/docs")
	return useStore(ctx, func(s *postgres.Store) error {
		made, err := createToken(ctx, s, devOwner, onejob.RoleUser, whoever(), devTokenLife)
		if err != nil {
			return err
		}
		return errors.Join(d.export("ONEJOB_URL", address), d.export("ONEJOB_TOKEN", made.Secret))
	})
}

// export sets a variable for this process and for those who use it.
func (d *development) export(name, value string) error {
	d.environ = append(withoutVariable(d.environ, name), name+"="+value)
	return os.Setenv(name, value)
}

// announce tells where everything is.
func (d *development) announce() error {
	var lines bytes.Buffer
	exports(&lines, d.environ)
	fmt.Fprintf(d.out, "onejob is up; an interrupt stops it, and the state stays in %s\n\n", d.dataDir)
	if ui := d.servers.Temporal.UIAddress(); ui != "" {
		fmt.Fprintf(d.out, "  temporal web ui     %s\n", ui)
	}
	fmt.Fprintf(d.out, "  temporal            %s\n", d.servers.Temporal.Address())
	fmt.Fprintf(d.out, "  postgres            %s\n", d.servers.Postgres.URL())
	for _, line := range d.ready {
		fmt.Fprintf(d.out, "  %s\n", line)
	}
	fmt.Fprintf(d.out, "\nTo use it from another terminal:\n\n%s\n", lines.Bytes())
	if d.envFile == "" {
		return nil
	}
	return writeFile(d.envFile, lines.Bytes())
}
