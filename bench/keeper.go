package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// keeperPart owns a server that would not end by itself when the benchmark is killed.
type keeperPart struct {
	cmd    *exec.Cmd
	log    *os.File
	exited chan error
}

const stopPatience = 20 * time.Second

func newKeeperPart(_ context.Context, t task) (part, error) {
	log, err := os.Create(t.Log)
	if err != nil {
		return nil, err
	}
	p := &keeperPart{cmd: exec.Command(t.Command[0], t.Command[1:]...), log: log, exited: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is for the benchmark
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		p.exited <- p.cmd.Wait()
		_ = os.Stdout.Close() // whoever listens learns that it is over
	}()
	return p, nil
}

// ready says the id of the server's process.
func (p *keeperPart) ready() any { return p.cmd.Process.Pid }

func (p *keeperPart) work(context.Context) (any, error) {
	return nil, errors.New("it has no orders to wait for")
}

func (p *keeperPart) end() error {
	defer p.log.Close()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s ended early: %w\n%s", p.cmd.Path, <-p.exited, lastLines(p.log.Name()))
	}
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	return nil
}

// lastLines returns the end of the file; empty if it cannot be read.
func lastLines(path string) string {
	const most = 2000
	text, _ := os.ReadFile(path)
	return string(text[max(0, len(text)-most):])
}
