package clicks

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"
)

// startPatience is what an instance may take until it listens.
const startPatience = time.Minute

// Instance is a onejob command that listens, as a process of its own. It ends when this process
// does, however that happens.
type Instance struct {
	Address string // host:port, as its log says
	PID     int

	cmd   *exec.Cmd
	lives io.Closer // its standard input
	ended sync.Once
	err   error
}

// listening is what the log of every command says that listens.
var listening = regexp.MustCompile(`msg="?(?:the door is open|metrics and health)"? address=(\S+)`)

// Start starts the program and waits until its log names an address. What it logs goes to log.
func Start(ctx context.Context, log io.Writer, environment []string, program string, arguments ...string) (*Instance, error) {
	i := &Instance{cmd: exec.Command(program, arguments...)}
	i.cmd.Env = append(append(os.Environ(), "ONEJOB_OWNED=1"), environment...)
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for this process, which stops it in order
	stderr, err := i.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if i.lives, err = i.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := i.cmd.Start(); err != nil {
		return nil, err
	}
	i.PID = i.cmd.Process.Pid
	address := make(chan string, 1)
	go follow(stderr, log, address)
	select {
	case found, ok := <-address:
		if i.Address = found; ok {
			return i, nil
		}
		err = errors.New("it ended before it listened")
	case <-time.After(startPatience):
		err = fmt.Errorf("it did not listen within %v", startPatience)
	case <-ctx.Done():
		err = ctx.Err()
	}
	i.Kill()
	return nil, fmt.Errorf("%s %v: %w", program, arguments, err)
}

// follow copies the log, and tells the first address in it. Without one it closes the channel.
func follow(from io.Reader, to io.Writer, address chan<- string) {
	defer close(address)
	told := false
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if found := listening.FindSubmatch(lines.Bytes()); found != nil && !told {
			told = true
			address <- string(found[1])
		}
		_, _ = fmt.Fprintf(to, "%s\n", lines.Bytes()) // it is for people
	}
}

// Kill leaves it no time for a last word.
func (i *Instance) Kill() { _ = i.end(syscall.SIGKILL) } // how it ended is what the caller did

// Stop lets it finish what it does, and says how it ended.
func (i *Instance) Stop() error { return i.end(syscall.SIGTERM) }

func (i *Instance) end(signal os.Signal) error {
	i.ended.Do(func() {
		_ = i.cmd.Process.Signal(signal) // it may have ended
		i.err = i.cmd.Wait()
		_ = i.lives.Close() // Wait has closed it
	})
	return i.err
}
