package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	startPatience = 30 * time.Second
	stopPatience  = 15 * time.Second
)

// OwnedVariable, set to anything, makes a onejob process end when its standard input
// does: when whoever started it has ended, however that happened.
const OwnedVariable = "ONEJOB_OWNED"

// process is a part of onejob in a process of its own.
type process struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.Closer // closing it asks the process to end
	log     string    // path of what it wrote to standard error
	address string    // where it listens, as its log says
	exited  chan struct{}
}

// startProcess starts onejob with the arguments and waits until its log says ready.
func (s *Stage) startProcess(ready string, args ...string) (*process, error) {
	p := &process{name: args[0], cmd: exec.Command(s.Binary, append(args, "--log-format", "json")...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), OwnedVariable+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for this process, which stops it in order
	log, err := os.CreateTemp(s.Dir, args[0]+"-*.log")
	if err != nil {
		return nil, err
	}
	p.log = log.Name()
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start onejob %s: %w", p.name, err), log.Close())
	}
	up := make(chan struct{})
	go p.follow(stderr, log, ready, up)
	return p, p.await(up)
}

// logLine is a line of a process's log, as far as it matters here.
type logLine struct {
	Msg     string `json:"msg"`
	Address string `json:"address"`
}

// follow keeps the log until the process has ended, and closes up when it says ready.
func (p *process) follow(stderr io.Reader, log io.WriteCloser, ready string, up chan<- struct{}) {
	defer close(p.exited)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(log, lines.Text())
		var line logLine
		if up == nil || json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		if line.Address != "" {
			p.address = line.Address
		}
		if line.Msg == ready {
			close(up)
			up = nil
		}
	}
	_, _ = io.Copy(log, stderr) // what a line too long left behind
	_ = log.Close()
	_ = p.cmd.Wait() // how it ended is in its log
}

func (p *process) await(up <-chan struct{}) error {
	select {
	case <-up:
		return nil
	case <-p.exited:
		text, _ := os.ReadFile(p.log)
		return fmt.Errorf("onejob %s ended at once: %s", p.name, strings.TrimSpace(string(text)))
	case <-time.After(startPatience):
		p.kill()
		return fmt.Errorf("onejob %s did not start within %v: see %s", p.name, startPatience, p.log)
	}
}

// stop ends the process in order, or else at once.
func (p *process) stop() {
	_ = p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		p.kill()
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.exited
}

func (s *Stage) path(name string) string { return filepath.Join(s.Dir, name) }
