package faults_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/starter"
)

// What all tests share: the built command, and a provider that answers in this process.
var (
	command   string
	simulated string // URL
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "onejob-faults-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(folder)
	command = filepath.Join(folder, "onejob")
	if output, err := exec.Command("go", "build", "-o", command, "github.com/onejob/onejob/cmd/onejob").CombinedOutput(); err != nil {
		return failed(fmt.Errorf("%w: %s", err, output))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return failed(err)
	}
	simulated = "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { _ = simulator.New(simulator.Options{}).Run(ctx, listener) }) // tests fail without it
	defer serving.Wait()
	defer stop()
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "faults:", err)
	return 1
}

// patience is what a test waits for what must happen.
const patience = 3 * time.Minute

// system is one onejob of its own: a database, a task queue, an owner. The workers see
// Postgres through the proxy.
type system struct {
	t        *testing.T
	proxy    *pgproxy.Proxy
	url      string    // of the database, past the proxy
	psql     *pgx.Conn // past the proxy
	queue    string
	owner    string
	config   string // path
	temporal client.Client
	sim      *simulator.Client
	starter  *starter.Starter // past the proxy, unless a test says otherwise
	catalog  onejob.Catalog
}

func newSystem(t *testing.T) *system {
	t.Helper()
	return newSystemOf(t, simulated)
}

// newSystemOf is a system with the simulated provider at that URL.
func newSystemOf(t *testing.T, provider string) *system {
	t.Helper()
	address, namespace := testservers.Temporal(t)
	url := pgtest.URL(t)
	s := &system{t: t, proxy: pgproxy.Start(t, url), url: url, psql: pgtest.Connect(t, url),
		queue: "faults-" + uuid.NewString(), owner: "o-" + uuid.NewString(), sim: simulator.NewClient(provider)}
	t.Cleanup(s.sim.Close)
	temporal, err := client.NewLazyClient(client.Options{HostPort: address, Namespace: namespace, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s.temporal = temporal
	t.Cleanup(temporal.Close)
	s.writeConfig(provider)
	s.starter = s.newStarter(url)
	return s
}

var quiet = slog.New(slog.DiscardHandler)

// writeConfig gives the simulated provider at that URL four names, of which "askable" and "spare"
// can be asked what became of a call, and have prices; a lost worker is noticed after a second.
func (s *system) writeConfig(at string) {
	s.t.Helper()
	text := fmt.Sprintf(`
providers:
  primary: {type: http, url: "%[1]s/v1/run/primary", timeout: 30s, listen_for: 1m, idempotency: {header: Idempotency-Key}}
  fallback: {type: http, url: "%[1]s/v1/run/fallback", timeout: 30s, listen_for: 1m}
  askable:
    type: http
    url: "%[1]s/v1/run/askable"
    timeout: 1s
    listen_for: 1m
    idempotency: {header: Idempotency-Key}
    model: m-large
    lookup: {url: "%[1]s/v1/run/askable/key/{key}", interval: 200ms, max_interval: 5s, not_found_after: 10s}
  spare:
    type: http
    url: "%[1]s/v1/run/spare"
    model: m-small
    timeout: 1s
    listen_for: 1m
    idempotency: {header: Idempotency-Key}
    lookup: {url: "%[1]s/v1/run/spare/key/{key}", interval: 200ms, max_interval: 5s, not_found_after: 10s}
kinds:
  ticket: {side_effects: external, contract: none}
  letter: {side_effects: external, contract: none}
prices:
%[2]sworker: {heartbeat_timeout: 3s, drain: 1s}
webhooks: {allow_private: true, timeout: 2s}
door: {rate: {per_second: 10000, burst: 10000}}
`, at, pricesText())
	c, err := config.Parse("onejob.yaml", []byte(text), os.LookupEnv)
	if err != nil {
		s.t.Fatal(err)
	}
	s.catalog, s.config = c.Catalog(), filepath.Join(s.t.TempDir(), "onejob.yaml")
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) newStarter(url string) *starter.Starter {
	s.t.Helper()
	return starter.New(starter.Options{Store: pgtest.Open(s.t, url), Temporal: s.temporal, Catalog: s.catalog, TaskQueue: s.queue, Logger: quiet})
}

// process is a worker as a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lives io.Closer // its standard input, which ends with this process, and it ends with that
	ended sync.Once
}

// startWorker starts `onejob worker`. It is killed with the test.
func (s *system) startWorker() *process {
	s.t.Helper()
	cmd := exec.Command(command, "worker", "--listen", "127.0.0.1:0", "--log-level", "warn")
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.proxy.URL(), "ONEJOB_TASK_QUEUE="+s.queue, "ONEJOB_CONFIG="+s.config, "ONEJOB_OWNED=1")
	cmd.Stderr = s.t.Output()
	lives, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &process{t: s.t, cmd: cmd, lives: lives}
	s.t.Cleanup(p.kill)
	return p
}

// kill leaves it no time for a last word.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop lets it finish what it does.
func (p *process) stop() { p.end(syscall.SIGTERM) }

func (p *process) end(signal os.Signal) {
	p.ended.Do(func() {
		_ = p.cmd.Process.Signal(signal) // it may have ended
		_ = p.cmd.Wait()                 // how it ended is what the test did
		_ = p.lives.Close()              // Wait has closed it
	})
}

// signal sends what stops and continues a process.
func (p *process) signal(signal os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// submit submits a request that must be taken. Simulate is what the provider does.
func (s *system) submit(simulate string, change ...func(*onejob.Request)) string {
	s.t.Helper()
	r := onejob.Request{Owner: s.owner, Key: uuid.NewString(), Kind: "ticket", Provider: "primary",
		Input: json.RawMessage(`{"simulate": {` + simulate + `}}`)}
	for _, f := range change {
		f(&r)
	}
	submitted, err := s.starter.Submit(s.t.Context(), r)
	if err != nil || !submitted.Created {
		s.t.Fatalf("submit: %+v, %v", submitted, err)
	}
	return submitted.JobID
}

func withFallback(r *onejob.Request) { r.Fallbacks = []string{"fallback"} }

func within(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(patience):
		t.Fatalf("did not happen within %v: %s", patience, what)
	}
}

// eventually waits for the condition.
func (s *system) eventually(what string, condition func() bool) {
	s.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			s.t.Fatalf("did not happen within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

func (s *system) get(jobID string) starter.Detail {
	s.t.Helper()
	detail, err := s.starter.Get(s.t.Context(), jobID)
	if err != nil {
		s.t.Fatal(err)
	}
	return detail
}

// awaitStatus waits until the job has the status.
func (s *system) awaitStatus(jobID string, status onejob.Status) (detail starter.Detail) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("job %s is %s", jobID, status), func() bool {
		detail = s.get(jobID)
		return detail.Status == status
	})
	return detail
}

// awaitExecution waits until the provider has executed the job.
func (s *system) awaitExecution(jobID string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if _, err := s.sim.AwaitExecution(ctx, simulator.Subject{Job: jobID}, 1); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) release(name string) {
	s.t.Helper()
	if _, err := s.sim.Release(s.t.Context(), name); err != nil {
		s.t.Fatal(err)
	}
}

// mustHaveExecuted asserts how often the provider executed each attempt, by number.
func (s *system) mustHaveExecuted(jobID string, executions []int) {
	s.t.Helper()
	for i, want := range executions {
		counts, err := s.sim.Executions(s.t.Context(), simulator.Subject{Job: jobID, Attempt: i + 1})
		if err != nil || counts.Executions != want || counts.Requests != 1 && counts.Requests != want {
			s.t.Errorf("attempt %d: %+v, %v; want %d executions", i+1, counts, err, want)
		}
	}
	if got := len(s.get(jobID).Attempts); got != len(executions) {
		s.t.Errorf("%d attempts, want %d", got, len(executions))
	}
}

// mustEndWith waits for the end of the workflow, and asserts that the winner's result is
// the only one there is.
func (s *system) mustEndWith(jobID string, winner int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	var outcome onejob.Outcome
	detail := s.get(jobID)
	if err := s.temporal.GetWorkflow(ctx, detail.WorkflowID, "").Get(ctx, &outcome); err != nil {
		s.t.Fatalf("the workflow of job %s: %v; it is %+v", jobID, err, s.get(jobID))
	}
	detail = s.get(jobID)
	if detail.Status != onejob.StatusSucceeded || detail.CompletedBy != winner || outcome.CompletedBy != winner || len(detail.Result) == 0 {
		s.t.Errorf("want attempt %d to have won, the row says %+v, the workflow %+v", winner, detail, outcome)
	}
	var results int
	err := s.psql.QueryRow(s.t.Context(), `
		SELECT (SELECT count(*) FROM jobs WHERE result IS NOT NULL) + (SELECT count(*) FROM attempts WHERE result IS NOT NULL)
		     + (SELECT count(*) FROM discarded_results)`).Scan(&results)
	if err != nil || results != 1 {
		s.t.Errorf("%d results in the database, %v", results, err)
	}
}

// decide runs an operator's decision that must be taken.
func (s *system) decide(decide func(ctx context.Context, by starter.Decision) error) {
	s.t.Helper()
	if err := decide(s.t.Context(), starter.Decision{By: "ops", Reason: "asked the provider"}); err != nil {
		s.t.Fatal(err)
	}
}

// mustRefuseAnother asserts that nothing starts while the attempt is unknown.
func (s *system) mustRefuseAnother(jobID string) {
	s.t.Helper()
	err := s.starter.StartAttempt(s.t.Context(), jobID, "fallback", starter.Decision{By: "ops"})
	if !errors.Is(err, onejob.ErrAttemptUnresolved) {
		s.t.Errorf("a new attempt beside an unknown one: %v", err)
	}
}
