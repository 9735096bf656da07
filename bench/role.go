package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// roleFlag makes this program one of the processes of a benchmark.
const roleFlag = "-role"

// Roles.
const (
	roleProvider = "provider"
	roleWorker   = "worker"
	roleClient   = "client"
	roleFloor    = "floor"
	roleKeeper   = "keeper"  // owns a Temporal server
	roleHandler  = "handler" // the door's floor
)

// task is what a role is told at its start.
type task struct {
	System     system        `json:"system,omitempty"`
	Postgres   string        `json:"postgres,omitempty"`
	Temporal   string        `json:"temporal,omitempty"`
	Provider   string        `json:"provider,omitempty"`
	Latency    time.Duration `json:"latency,omitempty"` // of the provider
	Run        string        `json:"run,omitempty"`     // the owner of the run's jobs
	Jobs       int           `json:"jobs,omitempty"`
	Rate       float64       `json:"rate,omitempty"` // jobs a second; 0: as fast as it goes
	Submitters int           `json:"submitters,omitempty"`
	WarmUp     int           `json:"warm_up,omitempty"` // jobs before those that are measured: new connections and caches cost once
	For        time.Duration `json:"for,omitempty"`     // of a floor: how long
	Command    []string      `json:"command,omitempty"`
	Log        string        `json:"log,omitempty"`
}

// warm is what is done before the task.
func (t task) warm() task {
	t.Run, t.Jobs, t.Rate, t.For = t.Run+"-warm", t.WarmUp, 0, 0
	return t
}

// part is one role as it runs: it says that it is ready, and then, each time that it is
// told to go on, does its work and answers: warms up first, then does what is measured. It ends when it is told nothing more, so a
// benchmark that is killed leaves nothing behind.
type part interface {
	ready() any
	work(ctx context.Context) (any, error)
	end() error
}

var parts = map[string]func(context.Context, task) (part, error){
	roleProvider: newProviderPart,
	roleWorker:   newWorkerPart,
	roleClient:   newClientPart,
	roleFloor:    newFloorPart,
	roleKeeper:   newKeeperPart,
	roleHandler:  newHandlerPart,
}

// playRole runs the role in this process, by its standard input and output.
func playRole(name string) (err error) {
	open, ok := parts[name]
	if !ok {
		return fmt.Errorf("role %q is unknown", name)
	}
	signal.Ignore(os.Interrupt, syscall.SIGHUP) // the benchmark gets them too, and closes the pipe
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var t task
	if err := orders.Decode(&t); err != nil {
		return fmt.Errorf("%s: read the task: %w", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := open(ctx, t)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := answers.Encode(p.ready()); err != nil {
		return err
	}
	for range goOns(orders, cancel) {
		answer, err := p.work(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

// goOns yields once for each order to go on. When the pipe is closed it ends, and cancels
// the work under way.
func goOns(orders *json.Decoder, cancel context.CancelFunc) <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		defer cancel()
		for {
			var goOn struct{}
			if err := orders.Decode(&goOn); err != nil {
				return
			}
			c <- goOn
		}
	}()
	return c
}

// process is a role in a process of its own.
type process struct {
	name    string
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *json.Decoder
	pid     int
}

// startRole starts the role and waits until it is ready; said, where not nil, gets what
// it says then.
func startRole(ctx context.Context, name string, t task, said any) (*process, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.CommandContext(ctx, executable, roleFlag, name)}
	p.cmd.Stderr = os.Stderr
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Cancel = p.orders.Close // it ends by itself then, in order
	p.cmd.WaitDelay = 30 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.pid, p.answers = p.cmd.Process.Pid, json.NewDecoder(output)
	if err := p.tell(t); err != nil {
		return nil, errors.Join(err, p.end())
	}
	if said == nil {
		said = &struct{}{}
	}
	if err := p.answer(said); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

func (p *process) tell(order any) error {
	if err := json.NewEncoder(p.orders).Encode(order); err != nil {
		return fmt.Errorf("tell the %s: %w", p.name, err)
	}
	return nil
}

func (p *process) goOn() error { return p.tell(struct{}{}) }

func (p *process) answer(into any) error {
	if err := p.answers.Decode(into); err != nil {
		return fmt.Errorf("the %s did not answer: %w", p.name, err)
	}
	return nil
}

// unlessItEnds returns a context that ends when the process does. It is for roles that
// say nothing after they are ready.
func (p *process) unlessItEnds(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { cancel(p.answer(&struct{}{})) }()
	return ctx, func() { cancel(nil) }
}

// end lets the process end in order and waits for it.
func (p *process) end() error {
	_ = p.orders.Close() // a second time it is closed already
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}
