package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/webhooks"
	"github.com/onejob/onejob/worker"
)

const patience = time.Minute

// nowhere is an address that refuses every connection.
const nowhere = "127.0.0.1:1"

var quiet = slog.New(slog.DiscardHandler)

// rig is a database and a task queue of the test's own, and doors to both.
type rig struct {
	t        *testing.T
	url      string // of the database
	store    *postgres.Store
	temporal client.Client
	queue    string
	owner    string
	token    string // of the owner, a user
	door     *door
}

// door is one instance, on a listener of its own.
type door struct {
	*api.Door
	address string
	stop    func() // and wait until it has ended
}

func newRig(t *testing.T, change ...func(*api.Options)) *rig {
	t.Helper()
	t.Parallel()
	address, _ := testservers.Temporal(t)
	return newRigOn(t, address, change...)
}

// newRigOn makes a rig whose Temporal is at the address.
func newRigOn(t *testing.T, temporalAddress string, change ...func(*api.Options)) *rig {
	t.Helper()
	r := &rig{t: t, url: pgtest.URL(t), queue: "api-" + uuid.NewString(), owner: "o-" + uuid.NewString()}
	r.store = pgtest.Open(t, r.url)
	c, err := client.NewLazyClient(client.Options{HostPort: temporalAddress, Logger: log.NewStructuredLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r.temporal = c
	r.token = r.mustToken(r.owner, onejob.RoleUser)
	r.door = r.open(change...)
	return r
}

// configuration has providers that are one simulated provider at the address.
func configuration(t *testing.T, address string) *config.Config {
	t.Helper()
	c, err := config.Parse("onejob.yaml", []byte(fmt.Sprintf(`
providers:
  primary: {type: http, url: "%[1]s/v1/run/primary", timeout: 10s, listen_for: 1m}
  fallback: {type: http, url: "%[1]s/v1/run/fallback", timeout: 10s, listen_for: 1m}
  gpt: {type: openai, url: "%[1]s/openai/v1", model: m-large, timeout: 10s, listen_for: 1m, unpriced: allow}
  claude: {type: anthropic, url: "%[1]s/anthropic", model: c-large, timeout: 10s, listen_for: 1m, unpriced: allow}
kinds:
  ticket: {side_effects: external, contract: none}
  chat: {side_effects: none, contract: none}
worker: {heartbeat_timeout: 2s, drain: 100ms}
`, address)), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) starter() *starter.Starter {
	return starter.New(starter.Options{Store: r.store, Temporal: r.temporal, Catalog: configuration(r.t, "http://"+nowhere).Catalog(), TaskQueue: r.queue, Logger: quiet})
}

// open opens an instance. It is closed with the test.
func (r *rig) open(change ...func(*api.Options)) *door {
	r.t.Helper()
	o := api.Options{
		Store: r.store, Starter: r.starter(), Logger: quiet, Webhooks: webhooks.Policy{AllowPrivate: true}, Rate: api.Rate{PerSecond: 10_000, Burst: 10_000},
		Failures: api.Rate{PerSecond: 10_000, Burst: 10_000},
		Temporal: func(ctx context.Context) error { _, err := r.temporal.CheckHealth(ctx, nil); return err },
		OpenAI:   &api.VendorDoor{Kind: "chat", Provider: "gpt"}, Anthropic: &api.VendorDoor{Kind: "chat", Provider: "claude"},
		Models: map[string]string{"gpt": "m-large", "claude": "c-large"},
	}
	for _, f := range change {
		f(&o)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	d := &door{Door: api.New(o), address: listener.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, listener) }()
	stopped := false
	d.stop = func() {
		if cancel(); stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			r.t.Errorf("the door ended with %v", err)
		}
	}
	r.t.Cleanup(d.stop)
	return d
}

// mustToken makes a token that lasts an hour.
func (r *rig) mustToken(owner string, role onejob.Role) string {
	r.t.Helper()
	return r.mustTokenFor(owner, role, time.Hour)
}

func (r *rig) mustTokenFor(owner string, role onejob.Role, lasting time.Duration) string {
	r.t.Helper()
	secret, token, err := api.NewToken(owner, role, "ana", lasting)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.store.AddToken(r.t.Context(), token); err != nil {
		r.t.Fatal(err)
	}
	return secret
}

// work runs a worker until the test ends.
func (r *rig) work() *simulator.Client {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	address := r.simulate(ctx)
	c := configuration(r.t, address)
	providers, err := c.Adapters()
	if err != nil {
		r.t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Store: r.store, Temporal: r.temporal, Namespace: client.DefaultNamespace, Providers: provider.NewRegistry(providers...), Kinds: c.Catalog().Kinds,
		TaskQueue: r.queue, HeartbeatTimeout: c.Worker.HeartbeatTimeout, Drain: c.Worker.Drain, ReconcileEvery: 200 * time.Millisecond, Logger: quiet,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the worker ended with %v", err)
		}
	})
	return simulator.NewClient(address)
}

func (r *rig) simulate(ctx context.Context) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- simulator.New(simulator.Options{}).Run(ctx, listener) }()
	r.t.Cleanup(func() {
		if err := <-ended; err != nil {
			r.t.Errorf("the simulated provider ended with %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// answer is what a door answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// problem returns the name of the problem that the answer is, or nothing.
func (a answer) problem() string {
	if name, ok := strings.CutPrefix(a.header.Get("Onejob-Problem"), api.ProblemBase); ok {
		return name // in a vendor's format
	}
	var p api.Problem
	if a.header.Get("Content-Type") != "application/problem+json" || json.Unmarshal(a.body, &p) != nil || p.Status != a.status || p.Title == "" || p.Detail == "" {
		return ""
	}
	name, ok := strings.CutPrefix(p.Type, api.ProblemBase)
	if !ok {
		return ""
	}
	return name
}

// field returns a member of the answer's object.
func (a answer) field(t *testing.T, name string) any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(a.body, &object); err != nil {
		t.Fatalf("%d %s is no object: %v", a.status, a.body, err)
	}
	return object[name]
}

// call is a request to a door.
type call struct {
	method, path, token string
	key                 string // empty: none is sent
	body                string // empty: none is sent
	header              map[string]string
}

// do sends the call to the rig's first door.
func (r *rig) do(c call) answer {
	r.t.Helper()
	return r.doAt(r.door, c)
}

func (r *rig) doAt(d *door, c call) answer {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	response, err := http.DefaultClient.Do(c.request(r.t, ctx, d.address))
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body}
}

func (c call) request(t *testing.T, ctx context.Context, address string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, c.method, "http://"+address+c.path, bytes.NewReader([]byte(c.body)))
	if err != nil {
		t.Fatal(err)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.key != "" {
		request.Header.Set("Idempotency-Key", c.key)
	}
	if c.body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	return request
}

// ticket is the body of a submit.
const ticket = `{"kind": "ticket", "provider": "primary", "input": {"text": "hello"}}`

// submit is the call that submits the body under the key.
func (r *rig) submit(key, body string) call {
	return call{method: http.MethodPost, path: "/v1/jobs", token: r.token, key: key, body: body}
}

// mustSubmit returns the new job's id.
func (r *rig) mustSubmit(key, body string) string {
	r.t.Helper()
	got := r.do(r.submit(key, body))
	if got.status != http.StatusCreated {
		r.t.Fatalf("the submit got %d %s", got.status, got.body)
	}
	return got.field(r.t, "job_id").(string)
}

func (r *rig) get(path string) answer {
	r.t.Helper()
	return r.do(call{method: http.MethodGet, path: path, token: r.token})
}

// eventually waits for the condition, or fails the test.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			r.t.Fatalf("did not happen within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// pgtestConnect is a connection for statements as a hand in psql would write them.
func pgtestConnect(t *testing.T, url string) *pgx.Conn { return pgtest.Connect(t, url) }

func tokenFilter(owner string) postgres.TokenFilter {
	return postgres.TokenFilter{Owner: owner, Limit: 100}
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
