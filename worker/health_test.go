package worker_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

var quiet = slog.New(slog.DiscardHandler)

const patience = time.Minute

// serve serves until the test ends, and returns the URL.
func serve(t *testing.T, h worker.Health) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func dial(t *testing.T, address, namespace string, metrics client.MetricsHandler) client.Client {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(quiet), MetricsHandler: metrics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestReadyIsWhatHasBothServers(t *testing.T) {
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	temporal, away := dial(t, address, namespace, nil), dial(t, "127.0.0.1:1", namespace, nil)
	store := pgtest.Store(t)
	for name, c := range map[string]struct {
		health worker.Health
		status int
		reason string
	}{
		"both":      {worker.Health{Store: store, Temporal: temporal}, http.StatusNoContent, ""},
		"no schema": {worker.Health{Store: pgtest.Open(t, testservers.Database(t)), Temporal: temporal}, http.StatusServiceUnavailable, "onejob migrate up"},
		"no server": {worker.Health{Store: store, Temporal: away}, http.StatusServiceUnavailable, "server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.health.Metrics = worker.NewMetrics()
			url := serve(t, c.health)
			if status, body := get(t, url+"/readyz"); status != c.status || !strings.Contains(body, c.reason) {
				t.Errorf("ready: %d %s; want %d that says %q", status, body, c.status, c.reason)
			}
			if status, _ := get(t, url+"/livez"); status != http.StatusNoContent {
				t.Errorf("live: %d", status)
			}
		})
	}
}

// obedient does what the job's input says, and tells of each call.
type obedient struct{ called chan<- struct{} }

func (o obedient) Call(ctx context.Context, call provider.Call) provider.Answer {
	o.called <- struct{}{}
	switch string(call.Input) {
	case `"silence"`:
		<-ctx.Done()
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonConnectionLost}
	case `"late"`:
		<-ctx.Done()
	}
	return provider.Answer{Certainty: provider.Succeeded, Result: call.Input}
}

func TestMetricsCountWhatHappens(t *testing.T) {
	t.Parallel()
	metrics := worker.NewMetrics()
	handler, err := metrics.Temporal()
	if err != nil {
		t.Fatal(err)
	}
	address, namespace := testservers.Temporal(t)
	temporal := dial(t, address, namespace, handler)
	database := pgtest.URL(t)
	store := pgtest.Open(t, database)
	called := make(chan struct{}, 10)
	w, err := worker.New(worker.Config{
		Store: store, Temporal: temporal, Namespace: namespace, Kinds: map[string]onejob.Kind{"ticket": {}}, TaskQueue: uuid.NewString(),
		HeartbeatTimeout: 3 * time.Second, Drain: 50 * time.Millisecond, ReconcileEvery: 50 * time.Millisecond, Metrics: metrics, Logger: quiet,
	}, worker.WithProvider(provider.Provider{Name: "mine", Adapter: obedient{called}, Timeout: 200 * time.Millisecond, ListenFor: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, w)
	url := serve(t, worker.Health{Store: store, Temporal: temporal, Metrics: metrics})
	jobs := starter.New(starter.Options{Store: store, Temporal: temporal, Catalog: w.Catalog(), TaskQueue: w.TaskQueue(), Logger: quiet})
	request := func(input string) onejob.Request {
		return onejob.Request{Owner: uuid.NewString(), Key: "k", Kind: "ticket", Provider: "mine", Input: json.RawMessage(input)}
	}

	unlaunched := request(`"answer"`)
	job, err := onejob.NewJob(unlaunched, w.Catalog())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.InsertJobs(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.Connect(t, database).Exec(t.Context(), `UPDATE jobs SET reconcile_at = clock_timestamp()`); err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, url, `onejob_reconciler_launches_total 1`)
	awaitMetric(t, url, `onejob_attempts_total{provider="mine",reason="",state="succeeded"} 1`)
	<-called

	if _, err := jobs.Wait(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	again, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: job.WorkflowID, TaskQueue: w.TaskQueue()}, workflows.JobType, unlaunched)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, url, `onejob_duplicates_answered_total 1`)

	if _, err := jobs.Submit(t.Context(), request(`"silence"`)); err != nil {
		t.Fatal(err)
	}
	<-called
	awaitMetric(t, url, `onejob_attempts_total{provider="mine",reason="timeout",state="unknown"} 1`)
	awaitMetric(t, url, `onejob_attempts_unknown{age="under_1m",provider="mine"} 1`)
	awaitMetric(t, url, `onejob_attempts_listening{provider="mine"} 1`)

	late, err := jobs.Submit(t.Context(), request(`"late"`))
	if err != nil {
		t.Fatal(err)
	}
	<-called
	if err := jobs.CancelJob(t.Context(), late.JobID, starter.Decision{By: "ana"}); err != nil {
		t.Fatal(err)
	}
	awaitMetric(t, url, `onejob_races_lost_total{provider="mine"} 1`)

	awaitMetric(t, url, "temporal_")
}

// run runs the worker until the test ends.
func run(t *testing.T, w *worker.Worker) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// awaitMetric waits until the metrics have the line.
func awaitMetric(t *testing.T, url, line string) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, body := get(t, url+"/metrics")
		if strings.Contains("\n"+body, "\n"+line) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("the metrics lack %q:\n%s", line, body)
		case <-tick.C:
		}
	}
}
