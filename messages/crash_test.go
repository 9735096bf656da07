package messages_test

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// databaseOfChild names the database to a process of this test that applies messages until
// one kills it.
const databaseOfChild = "ONEJOB_TEST_CRASHING_CONSUMER"

func TestMain(m *testing.M) {
	if url := os.Getenv(databaseOfChild); url != "" {
		os.Exit(consumeAndCrash(url))
	}
	os.Exit(m.Run())
}

// crashing dies of the message number 50, after its effects and before their commit.
func crashing() messages.Consumer {
	c := counting()
	c.MaxTries, c.Lease = 3, 2*time.Second
	c.Backoff = func(int) time.Duration { return 0 }
	c.Apply = func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
		if err := addEffects(ctx, tx, batch); err != nil {
			return err
		}
		for _, m := range batch {
			if string(m.Payload) == `{"n" : 50}` {
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		return nil
	}
	return c
}

func consumeAndCrash(url string) int {
	store, err := postgres.Open(context.Background(), url)
	if err != nil {
		return 1
	}
	if err := (messages.Runner{Store: store, Consumers: []messages.Consumer{crashing()}, Poll: 50 * time.Millisecond}).Run(context.Background()); err != nil {
		return 1
	}
	return 0
}

// A message that kills its process would kill every worker after another if its tries were
// not counted, and its neighbours would never be applied.
func TestMessageThatKillsItsProcessDiesAndItsNeighboursGoThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tell(t, 100)
	crashes := 0
	for r.count(t, `SELECT count(*) FROM inbox WHERE state = 'dead'`) == 0 {
		if crashed := r.runChild(t); crashed {
			crashes++
		}
		if crashes > 3 {
			t.Fatal("it kills workers for ever")
		}
	}
	if crashes != 3 {
		t.Errorf("dead after %d crashes, not 3", crashes)
	}
	start(t, messages.Runner{Store: r.store, Consumers: []messages.Consumer{crashing()}})
	r.await(t, 99, done)
	r.mustHaveAppliedOnce(t, 99)
	if n := r.count(t, `SELECT count(*) FROM inbox JOIN outbox USING (message_key) WHERE state = 'dead' AND tries = 3 AND payload ->> 'n' = '50'`); n != 1 {
		t.Error("another message is dead")
	}
}

// runChild runs a process that consumes until it crashes, or until the poison is dead. It
// returns whether it crashed.
func (r rig) runChild(t *testing.T) bool {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), databaseOfChild+"="+r.url)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = child.Wait() }() // the state says how
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.After(patience); ; {
		select {
		case <-ended:
			return child.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
		case <-deadline:
			_ = child.Process.Kill()
			<-ended
			t.Fatal("the child neither crashed nor gave the message up")
		case <-ticker.C:
			if r.count(t, `SELECT count(*) FROM inbox WHERE state = 'dead'`) > 0 {
				_ = child.Process.Signal(syscall.SIGTERM)
				<-ended
				return false
			}
		}
	}
}
