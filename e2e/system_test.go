package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
)

// The test binary plays other processes too.
const (
	roleVariable   = "ONEJOB_E2E_ROLE"
	roleSimulator  = "simulator"
	roleSubmitters = "submitters"
)

// simulatorURL is where the simulated provider of this test binary answers.
var simulatorURL string

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case roleSimulator:
		os.Exit(playSimulator())
	case roleSubmitters:
		os.Exit(playSubmitters())
	}
	stop, err := startSimulator()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the simulated provider:", err)
		os.Exit(1)
	}
	code := m.Run()
	stop()
	os.Exit(code)
}

// playSimulator serves until its standard input closes, which it does when the tests end,
// however they end.
func playSimulator() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
	}()
	fmt.Println("http://" + listener.Addr().String())
	if err := simulator.New(simulator.Options{CallbackSecret: callbackSecret}).Run(ctx, listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func startSimulator() (stop func(), err error) {
	simulatorURL, stop, err = spawnSimulator()
	return stop, err
}

// spawnSimulator starts a simulated provider as a process of its own.
func spawnSimulator() (address string, stop func(), err error) {
	self := exec.Command(os.Args[0])
	self.Env = append(os.Environ(), roleVariable+"="+roleSimulator)
	self.Stderr = os.Stderr
	stdin, err := self.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := self.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := self.Start(); err != nil {
		return "", nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	return strings.TrimSpace(line), func() { _ = stdin.Close(); _ = self.Wait() }, err
}

// system is one onejob of its own: a database, a task queue, an owner.
type system struct {
	t        *testing.T
	url      string // of the database
	address  string // of Temporal
	store    *postgres.Store
	temporal client.Client
	queue    string
	owner    string
	sim      *simulator.Client
	config   *config.Config
	starter  *starter.Starter
	psql     *pgx.Conn // for what a hand would ask
}

// conn returns the connection for statements as a hand in psql would write them.
func (s *system) conn() *pgx.Conn { return s.psql }

// newSystem makes a system on the servers of the environment. Workers start by hand.
func newSystem(t *testing.T) *system {
	t.Helper()
	t.Parallel()
	return newLoneSystem(t)
}

// newLoneSystem is newSystem for a test that runs alone, since it takes all that the
// servers have.
func newLoneSystem(t *testing.T) *system {
	t.Helper()
	address, _ := testservers.Temporal(t)
	return newSystemOn(t, pgtest.URL(t), address)
}

func newSystemOn(t *testing.T, databaseURL, temporalAddress string) *system {
	s := &system{t: t, url: databaseURL, address: temporalAddress, queue: "e2e-" + uuid.NewString(), owner: "o-" + uuid.NewString()}
	s.store = pgtest.Open(t, databaseURL)
	s.psql = pgtest.Connect(t, databaseURL)
	s.temporal = dialTemporal(t, temporalAddress)
	s.sim = simulator.NewClient(simulatorURL)
	s.config = parseConfig(t)
	s.starter = starter.New(starter.Options{Store: s.store, Temporal: s.temporal, Catalog: s.config.Catalog(), TaskQueue: s.queue, Logger: quiet})
	return s
}

var quiet = slog.New(slog.DiscardHandler)

func dialTemporal(t *testing.T, address string) client.Client {
	c, err := lazyClient(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// parseConfig has providers that are one simulated provider under several names: "asked"
// can be asked what became of a call and to give it up, and so can "patient", which is not
// asked for an hour; "again" honours keys, "calling" calls back; "chat", "deep" and "claude"
// are models. "dead" refuses every connection.
func parseConfig(t *testing.T) *config.Config { return parseConfigWith(t, "", "") }

// parseConfigWith is parseConfig with a part of a URL replaced.
func parseConfigWith(t *testing.T, old, replacement string) *config.Config {
	text := fmt.Sprintf(`
providers:
  primary: {type: http, url: %[1]q, timeout: 10s, listen_for: 1m, idempotency: {header: Idempotency-Key, window: 24h, reasks: 0}}
  fallback: {type: http, url: %[2]q, timeout: 10s, listen_for: 1m}
  asked:
    type: http
    url: %[3]q
    timeout: 10s
    listen_for: 1m
    lookup: {url: "%[3]s/key/{key}", interval: 50ms, max_interval: 200ms}
    cancel: {url: "%[3]s/key/{key}/cancel"}
    idempotency: {header: Idempotency-Key, window: 24h, reasks: 0}
  patient:
    type: http
    url: %[5]q
    timeout: 10s
    listen_for: 1m
    lookup: {url: "%[5]s/key/{key}", interval: 1h, max_interval: 1h}
    cancel: {url: "%[5]s/key/{key}/cancel"}
    idempotency: {header: Idempotency-Key, window: 24h, reasks: 0}
  again: {type: http, url: %[4]q, timeout: 10s, listen_for: 1m, idempotency: {header: Idempotency-Key, window: 24h, reasks: 3}}
  calling: {type: http, url: %[6]q, timeout: 10s, listen_for: 1m, callback: {secret: "${env:CALLBACK_SECRET}"}}
  chat: {type: openai, url: %[7]q, api_key: "${env:KEY}", model: m-large, unpriced: allow}
  deep: {type: openai, url: %[7]q, api_key: "${env:KEY}", model: m-large, api: responses, background: true, lookup: {interval: 50ms, max_interval: 200ms}, unpriced: allow}
  claude: {type: anthropic, url: %[8]q, api_key: "${env:KEY}", model: m-large, unpriced: allow}
  dead: {type: http, url: "http://127.0.0.1:1/v1/run", timeout: 10s, listen_for: 1m}
kinds:
  ticket: {side_effects: external, contract: none}
  free: {side_effects: none, contract: none}
worker: {heartbeat_timeout: 4s, drain: 1s}
`, simulatorURL+"/v1/run/primary", simulatorURL+"/v1/run/fallback", simulatorURL+"/v1/run/asked", simulatorURL+"/v1/run/again", simulatorURL+"/v1/run/patient", simulatorURL+"/v1/run/calling",
		simulatorURL+"/openai/v1", simulatorURL+"/anthropic")
	c, err := config.Parse("onejob.yaml", []byte(strings.Replace(text, old, replacement, 1)), func(string) (string, bool) { return callbackSecret, true })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startWorker runs a worker in this process until the test ends or stop is called.
func (s *system) startWorker(change ...func(*worker.Config)) (stop func()) {
	s.t.Helper()
	return s.run(s.newWorker(change...))
}

func (s *system) newWorker(change ...func(*worker.Config)) *worker.Worker {
	s.t.Helper()
	w, err := worker.New(s.newWorkerConfig(change...))
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// looksSoon makes runs that hear nothing look again at once, instead of after a minute.
func looksSoon(w *worker.Config) { w.FirstLook = 50 * time.Millisecond }

// submitAs makes the starter know what a worker of that configuration knows.
func (s *system) submitAs(change ...func(*worker.Config)) {
	s.t.Helper()
	s.starter = starter.New(starter.Options{Store: s.store, Temporal: s.temporal, Catalog: s.newWorker(change...).Catalog(), TaskQueue: s.queue, Logger: quiet})
}

func (s *system) newWorkerConfig(change ...func(*worker.Config)) worker.Config {
	s.t.Helper()
	providers, err := s.config.Adapters()
	if err != nil {
		s.t.Fatal(err)
	}
	c := worker.Config{
		Store: s.store, Temporal: s.temporal, Namespace: client.DefaultNamespace, Providers: provider.NewRegistry(providers...), Kinds: s.config.Catalog().Kinds,
		Contracts: s.config.Contracts(),
		TaskQueue: s.queue, HeartbeatTimeout: s.config.Worker.HeartbeatTimeout, Drain: s.config.Worker.Drain,
		ReconcileEvery: 200 * time.Millisecond, RelaunchAfter: time.Second, Logger: quiet,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

// run runs the worker until the test ends or stop is called.
func (s *system) run(w *worker.Worker) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("worker: %v", err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// request is a request of the system's owner; the input tells the simulated provider
// what to do.
func (s *system) request(key string, simulate string) onejob.Request {
	return onejob.Request{
		Owner: s.owner, Key: key, Kind: "ticket", Provider: "primary",
		Input: json.RawMessage(fmt.Sprintf(`{"text": %q, "simulate": {%s}}`, key, simulate)),
	}
}

// submit submits a request that must be taken.
func (s *system) submit(r onejob.Request) onejob.Submitted {
	s.t.Helper()
	submitted, err := s.starter.Submit(s.t.Context(), r)
	if err != nil {
		s.t.Fatalf("submit: %v", err)
	}
	return submitted
}

func (s *system) get(jobID string) starter.Detail {
	s.t.Helper()
	detail, err := s.starter.Get(s.t.Context(), jobID)
	if err != nil {
		s.t.Fatal(err)
	}
	return detail
}

// patience is how long a test waits for what must come, on a machine that is busy.
const patience = 3 * time.Minute

// wait waits until the job is closed.
func (s *system) wait(jobID string) starter.Detail {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	detail, err := s.starter.Wait(ctx, jobID)
	if err != nil {
		s.t.Fatalf("wait for job %s: %v; it is %+v", jobID, err, s.get(jobID))
	}
	return detail
}

// awaitStatus waits until the job has the status.
func (s *system) awaitStatus(jobID string, status onejob.Status) starter.Detail {
	s.t.Helper()
	var detail starter.Detail
	s.eventually(fmt.Sprintf("job %s is %s", jobID, status), func() bool {
		detail = s.get(jobID)
		return detail.Status == status
	})
	return detail
}

// eventually waits for the condition, or fails the test.
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

// executions returns how often the provider executed the job.
func (s *system) executions(jobID string) int {
	s.t.Helper()
	counts, err := s.sim.Executions(s.t.Context(), simulator.Subject{Job: jobID})
	if err != nil {
		s.t.Fatal(err)
	}
	return counts.Executions
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
