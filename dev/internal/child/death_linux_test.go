package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// The main goroutine keeps the main thread, the only one which does not end with the
// goroutine that locks it.
func init() { runtime.LockOSThread() }

func TestProcessOutlivesTheThreadThatAskedForIt(t *testing.T) {
	t.Parallel()
	var p *Process
	var thread int
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		thread = syscall.Gettid()
		var err error
		p, err = Start(exec.Command("sleep", "1000"), syscall.SIGKILL)
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	awaitThreadEnd(t, thread)
	if err := p.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.State(); got != "signal: terminated" {
		t.Errorf("it ended by %s, before it was told to", got)
	}
}

func awaitThreadEnd(t *testing.T, thread int) {
	t.Helper()
	for {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread)); errors.Is(err, os.ErrNotExist) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the thread never ended")
		}
	}
}
