package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/starter"
)

// submission is what the submitting processes are told to submit, over and over.
type submission struct {
	Database, Temporal, Queue string
	Requests                  []onejob.Request
	Times                     int // each, all at once
}

// playSubmitters submits what standard input says, all at once, and prints the ids.
func playSubmitters() int {
	var s submission
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := s.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (s submission) run(ctx context.Context) error {
	store, err := postgres.Open(ctx, s.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	temporal, err := lazyClient(s.Temporal)
	if err != nil {
		return err
	}
	defer temporal.Close()
	submitter := starter.New(starter.Options{Store: store, Temporal: temporal, Catalog: anyCatalog(s.Requests), TaskQueue: s.Queue, Logger: quiet})
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	for _, r := range s.Requests {
		for range s.Times {
			all.Go(func() {
				submitted, err := submitter.Submit(ctx, r)
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
				fmt.Println(submitted.JobID, submitted.WorkflowID, submitted.Created)
			})
		}
	}
	all.Wait()
	return failed
}

// anyCatalog offers exactly what the requests name.
func anyCatalog(requests []onejob.Request) onejob.Catalog {
	c := onejob.Catalog{Kinds: map[string]onejob.Kind{}, Providers: map[string]onejob.ProviderDefaults{}}
	for _, r := range requests {
		c.Kinds[r.Kind] = onejob.Kind{SideEffects: true}
		for _, name := range append([]string{r.Provider}, r.Fallbacks...) {
			c.Providers[name] = onejob.ProviderDefaults{Timeout: 10e9, ListenFor: 60e9}
		}
	}
	return c
}

// inProcesses submits each request times times in each of several processes at once and
// returns the lines they printed.
func (s *system) inProcesses(processes, times int, requests ...onejob.Request) (lines []string) {
	s.t.Helper()
	text, err := json.Marshal(submission{Database: s.url, Temporal: s.address, Queue: s.queue, Requests: requests, Times: times})
	if err != nil {
		s.t.Fatal(err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			printed, err := submitInProcess(s.t.Context(), text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.t.Errorf("a submitting process: %v", err)
			}
			lines = append(lines, printed...)
		})
	}
	all.Wait()
	return lines
}

func submitInProcess(ctx context.Context, text []byte) (lines []string, err error) {
	self := exec.CommandContext(ctx, os.Args[0])
	self.Env = append(os.Environ(), roleVariable+"="+roleSubmitters)
	self.Stderr = os.Stderr
	stdin, err := self.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := self.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := self.Start(); err != nil {
		return nil, err
	}
	_, err = stdin.Write(text)
	err = errors.Join(err, stdin.Close())
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines, errors.Join(err, self.Wait())
}

// distinct returns how many different (job, workflow) pairs the lines name, and how many
// lines say created.
func distinct(t *testing.T, lines []string) (jobs, created int) {
	pairs := map[string]bool{}
	for _, line := range lines {
		var job, workflow string
		var isNew bool
		if _, err := fmt.Sscan(line, &job, &workflow, &isNew); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		pairs[job+" "+workflow] = true
		if isNew {
			created++
		}
	}
	return len(pairs), created
}

func TestDoubleClickIsOneJob(t *testing.T) {
	s := newLoneSystem(t)
	s.startWorker()
	lines := s.inProcesses(4, 50, s.request("click", ""))
	if len(lines) != 200 {
		t.Fatalf("%d submits answered, want 200", len(lines))
	}
	if jobs, created := distinct(t, lines); jobs != 1 || created != 1 {
		t.Errorf("200 submits gave %d jobs, %d of them said created; want 1 and 1", jobs, created)
	}
	job, err := s.starter.GetByKey(t.Context(), s.owner, "click")
	if err != nil {
		t.Fatal(err)
	}
	if done := s.wait(job.JobID); done.Status != onejob.StatusSucceeded {
		t.Errorf("the job is %s", done.Status)
	}
	s.wantOneRunAndRow(job.View, 1)
}

func TestManyKeysSubmittedFiveTimesAreOneJobEach(t *testing.T) {
	s := newLoneSystem(t)
	s.startWorker()
	const keys = 1000
	var requests []onejob.Request
	for i := range keys {
		requests = append(requests, s.request(fmt.Sprintf("order-%04d", i), ""))
	}
	lines := s.inProcesses(5, 1, requests...)
	if jobs, created := distinct(t, lines); jobs != keys || created != keys {
		t.Fatalf("%d submits gave %d jobs, %d of them said created; want %d of each", len(lines), jobs, created, keys)
	}
	for _, id := range s.jobIDs() {
		if done := s.wait(id); done.Status != onejob.StatusSucceeded {
			t.Errorf("job %s is %s", id, done.Status)
		}
	}
	// A busy machine may be handed an attempt and never run it: its number is fenced.
	if n := s.count(`SELECT count(*) FROM attempts WHERE reason IS DISTINCT FROM $1`, onejob.ReasonNeverStarted); n != keys {
		t.Errorf("%d attempts for %d jobs", n, keys)
	}
	for _, id := range s.jobIDs() {
		if n := s.executions(id); n != 1 {
			t.Errorf("the provider executed job %s %d times", id, n)
		}
	}
}

func TestOtherIntentUnderTheSameKeyIsRefused(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	first := s.submit(s.request("k", ""))
	before := s.wait(first.JobID)
	other := s.request("k", `"latency": "1ms"`)
	_, err := s.starter.Submit(t.Context(), other)
	if !errors.Is(err, onejob.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if after := s.get(first.JobID); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the refused request changed the job from %+v to %+v", before, after)
	}
	s.wantOneRunAndRow(before.View, 1)
}

func TestSameRequestAfterTheEndAnswersTheSame(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("again", "")
	first := s.submit(r)
	s.wait(first.JobID)
	again := s.submit(r)
	if again.JobID != first.JobID || again.WorkflowID != first.WorkflowID || again.Created || again.Status != onejob.StatusSucceeded {
		t.Errorf("the second submit answered %+v, the first %+v", again, first)
	}
	s.wantOneRunAndRow(s.get(first.JobID).View, 1)
}

func TestJobForgottenByTemporalAnswersTheSame(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	r := s.request("forgotten", "")
	first := s.submit(r)
	s.wait(first.JobID)
	s.forget(first.WorkflowID)
	again := s.submit(r)
	if again.JobID != first.JobID || again.Created {
		t.Errorf("after Temporal forgot it, the submit answered %+v, before %+v", again, first)
	}
	if _, err := s.temporal.DescribeWorkflow(t.Context(), first.WorkflowID, ""); err == nil {
		t.Error("it runs again")
	}
	if n := s.executions(first.JobID); n != 1 {
		t.Errorf("the provider executed it %d times", n)
	}
}
