// Package child runs a program as a child process that this process owns: it has a
// process group of its own, so that an interrupt typed at the terminal reaches only
// its owner, who stops it in order; and on Linux the kernel kills it when its owner
// dies, however that happens.
package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// grace is how long a process gets between one signal of [Process.Stop] and the next,
// stronger one.
const grace = 5 * time.Second

// Process is a running or ended child process. Its methods are safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; read it after exited is closed
}

// Start starts cmd in a process group of its own. onOwnerDeath is the signal that the
// kernel sends it when this process dies; systems other than Linux send none.
// cmd.SysProcAttr may hold a credential, and cmd must not have been started.
func Start(cmd *exec.Cmd, onOwnerDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	signalOnOwnerDeath(cmd.SysProcAttr, onOwnerDeath)

	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end on one locked thread: to Linux the
// parent whose death counts is the thread that forked, not the whole process, and Go
// ends threads as it likes unless a goroutine holds them.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.err = p.cmd.Wait()
	close(p.exited)
}

// PID is the process's id, also after its end.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended and was waited for.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Wait waits for the end of the process and returns what [exec.Cmd.Wait] returned.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// State waits for the end of the process and describes it, as "exit status 1".
func (p *Process) State() string {
	<-p.exited
	return p.cmd.ProcessState.String()
}

// Signal sends sig to the process; a process that has ended is not an error.
func (p *Process) Signal(sig syscall.Signal) error {
	return ignoreEnded(p.cmd.Process.Signal(sig))
}

// SignalGroup sends sig to every process of the group, also when the first of them has
// ended; an empty group is not an error.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	return ignoreEnded(syscall.Kill(-p.PID(), sig))
}

// Stop ends the process by the first of signals, and if it is still there when ctx is
// done, by the others, five seconds apart, and then by SIGKILL. It returns when the
// process has ended; the error is about signals which could not be sent.
func (p *Process) Stop(ctx context.Context, signals ...syscall.Signal) error {
	var errs []error
	for i, sig := range append(signals, syscall.SIGKILL) {
		if i > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.Background(), grace)
			defer cancel()
		}
		errs = append(errs, p.Signal(sig))
		select {
		case <-p.exited:
			return errors.Join(errs...)
		case <-ctx.Done():
		}
	}
	<-p.exited
	return errors.Join(errs...)
}

func ignoreEnded(err error) error {
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Run runs cmd to its end and returns what [exec.Cmd.Wait] returned. When ctx is done
// first, it ends the whole group by SIGTERM, then SIGKILL, and returns the cause. Either
// way nothing of the group is left.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	p, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
		_ = p.SignalGroup(syscall.SIGKILL)
		return p.err
	case <-ctx.Done():
	}
	p.endGroup()
	return context.Cause(ctx)
}

// endGroup ends a group that was told to finish: SIGTERM, then after the grace, or for
// those whom the first of them left behind, SIGKILL.
func (p *Process) endGroup() {
	_ = p.SignalGroup(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(grace):
	}
	_ = p.SignalGroup(syscall.SIGKILL)
	<-p.exited
}
