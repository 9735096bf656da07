// Package demo tells the story of onejob on real servers and real processes, and checks
// every claim it makes: against the rows in Postgres, the workflows in Temporal and what
// the provider counted. A claim that does not hold ends the story with an error.
//
// The provider, the workers and everybody who submits are processes of their own: the
// same program, run again. They find the servers by the environment of this process.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob/simulator"
)

// Options say what the story is told with.
type Options struct {
	Binary    string        // the onejob program
	Dir       string        // an empty folder for the files and logs of the story
	Config    []byte        // a configuration of the simulated provider at ONEJOB_SIMULATOR
	Jobs      []byte        // requests for the bulk, one a line
	Temporal  client.Client // the server that the environment names
	Namespace string
	WebUI     string // its URL; empty: not known
	Run       string // makes the story's owners its own on servers that others use too; may be empty
	Out       io.Writer
	Log       io.Writer // where the bulk's progress goes
}

// Stage is the story's set: the provider, a worker, and eyes on everything.
type Stage struct {
	Options
	rows      *pgx.Conn
	provider  *process
	worker    *process
	simulator *simulator.Client
	claims    int
}

// Open starts the provider and the worker. Close the stage.
func Open(ctx context.Context, o Options) (*Stage, error) {
	s := &Stage{Options: o}
	err := s.open(ctx)
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stage) open(ctx context.Context) (err error) {
	if s.rows, err = pgx.Connect(ctx, os.Getenv("DATABASE_URL")); err != nil {
		return fmt.Errorf("connect to the rows: %w", err)
	}
	if s.provider, err = s.startProcess("simulator listens", "simulator", "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	s.simulator = simulator.NewClient(s.provider.address)
	config := s.path("onejob.yaml")
	if err := errors.Join(os.WriteFile(config, withContract(s.Config), 0o644), os.WriteFile(s.path(contractFile), gatedContract(), 0o644)); err != nil {
		return err
	}
	for name, value := range map[string]string{"ONEJOB_SIMULATOR": s.provider.address, "ONEJOB_CONFIG": config} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return s.startWorker()
}

func (s *Stage) startWorker() (err error) {
	s.worker, err = s.startProcess("worker started", "worker", "--listen", "127.0.0.1:0")
	return err
}

// Close stops what Open started.
func (s *Stage) Close() {
	for _, p := range []*process{s.worker, s.provider} {
		if p != nil {
			p.stop()
		}
	}
	if s.simulator != nil {
		s.simulator.Close()
	}
	if s.rows != nil {
		_ = s.rows.Close(context.Background()) // the story is over
	}
}

// Tell tells the whole story. It returns an error that names the claim that did not
// hold, or what kept it from being checked.
func (s *Stage) Tell(ctx context.Context) error {
	for i, scene := range []struct {
		title string
		play  func(*scene)
	}{
		{"The double click", (*scene).doubleClick},
		{"The same key for something else", (*scene).otherIntent},
		{"The silent provider answers late", (*scene).lateAnswer},
		{"The reply is lost, and the provider can be asked", (*scene).lostReply},
		{"The silent provider is given up by a signal", (*scene).givenUp},
		{"The worker is killed in the middle of a call", (*scene).killedWorker},
		{"The second one finishes first", (*scene).reverseOrder},
		{"Many jobs, submitted twice", (*scene).bulk},
		{"Every fault at once, and a worker killed", (*scene).mixedFaults},
		{"Failover, to who has proved itself", (*scene).gate},
		{"Money moves once", (*scene).moneyOnce},
		{"What was executed", (*scene).reckoning},
	} {
		fmt.Fprintf(s.Out, "\n%d. %s\n\n", i+1, scene.title)
		if err := s.play(ctx, scene.play); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.Out, "\n%d claims held. duplicates executed: 0\n", s.claims)
	return nil
}

// owner is who the story's jobs belong to.
func (s *Stage) owner(name string) string {
	if s.Run == "" {
		return name
	}
	return name + "-" + s.Run
}

// The double click: so many submits of one key at once, from so many processes.
const (
	clickProcesses = 8
	clicksEach     = 25
)
