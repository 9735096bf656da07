package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
)

// What a happy job may cost; docs/performance.md says why.
const (
	mostEvents       = 12
	mostTransactions = 4
	mostBytesApart   = 64 // of histories whose payloads differ by a megabyte: times are not always written in as many bytes
)

const patience = time.Minute // for one job

// system is a worker and a starter on a database whose commits are counted. The
// provider answers with what it was sent.
type system struct {
	temporal client.Client
	starter  *starter.Starter
	postgres *pgproxy.Proxy
	owner    string
}

func startSystem(t *testing.T) *system {
	t.Helper()
	address, namespace := testservers.Temporal(t)
	temporal, err := client.Dial(client.Options{HostPort: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(temporal.Close)
	proxy := pgproxy.Start(t, pgtest.URL(t))
	store := pgtest.Open(t, proxy.URL())
	queue := uuid.NewString()
	w, err := worker.New(worker.Config{
		Store: store, Temporal: temporal, Namespace: namespace, TaskQueue: queue,
		Providers: provider.NewRegistry(echoProvider(t)), Kinds: map[string]onejob.Kind{"echo": {}},
		ReconcileEvery: time.Hour, Drain: time.Second, // once at the start, and never again
		WithoutMessages: true, // they are taken in batches, by whichever worker, and are no job's own cost
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the worker failed: %v", err)
		}
	})
	s := starter.New(starter.Options{Store: store, Temporal: temporal, Catalog: w.Catalog(), TaskQueue: queue})
	return &system{temporal: temporal, starter: s, postgres: proxy, owner: uuid.NewString()}
}

func echoProvider(t *testing.T) provider.Provider {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		input, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(input)
	}))
	t.Cleanup(server.Close)
	adapter, err := httpjson.New(httpjson.Config{Name: "echo", URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(adapter.Close)
	return provider.Provider{Name: "echo", Adapter: adapter, Timeout: 30 * time.Second, ListenFor: time.Minute}
}

// run submits a job and returns the history of its workflow once that is closed. It does
// not look at the row before, so that no transaction is the test's.
func (s *system) run(t *testing.T, key, input string) []*historypb.HistoryEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	submitted, err := s.starter.Submit(ctx, onejob.Request{Owner: s.owner, Key: key, Kind: "echo", Provider: "echo", Input: json.RawMessage(input)})
	if err != nil {
		t.Fatal(err)
	}
	var outcome onejob.Outcome
	if err := s.temporal.GetWorkflow(ctx, submitted.WorkflowID, "").Get(ctx, &outcome); err != nil {
		job, _ := s.starter.Get(t.Context(), submitted.JobID)
		t.Fatalf("%v; the job: %+v", err, job.View)
	}
	if outcome.Status != onejob.StatusSucceeded {
		t.Fatalf("the job is %s, not succeeded", outcome.Status)
	}
	var events []*historypb.HistoryEvent
	for all := s.temporal.GetWorkflowHistory(ctx, submitted.WorkflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); all.HasNext(); {
		event, err := all.Next()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	return events
}

func TestHappyJobPaysOnlyForWhatItUses(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	events := s.run(t, "one", `{"ticket":45}`)
	counts := map[enumspb.EventType]int{}
	var names []string
	for _, event := range events {
		counts[event.EventType]++
		names = append(names, event.EventType.String())
	}
	told := strings.Join(names, " ")
	if len(events) > mostEvents {
		t.Errorf("%d history events, want at most %d: %s", len(events), mostEvents, told)
	}
	if n := counts[enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED]; n != 1 {
		t.Errorf("%d regular activities, want 1: %s", n, told)
	}
	for _, unused := range []enumspb.EventType{
		enumspb.EVENT_TYPE_TIMER_STARTED,
		enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
		enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED,
	} {
		if counts[unused] > 0 {
			t.Errorf("%d × %s, want none: %s", counts[unused], unused, told)
		}
	}
}

func TestHappyJobTakesAtMostFourTransactions(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	s.run(t, "first", `{"ticket":45}`) // the worker has looked for jobs to reconcile by now, or will not
	const jobs = 5
	before := s.postgres.Commits()
	for n := range jobs {
		s.run(t, fmt.Sprint("job-", n), `{"ticket":45}`)
	}
	if commits := s.postgres.Commits() - before; commits > jobs*mostTransactions {
		t.Errorf("%d transactions for %d jobs, want at most %d each", commits, jobs, mostTransactions)
	} else if commits == 0 {
		t.Error("no transaction was counted: the counter sees nothing")
	}
}

func TestHistoryDoesNotGrowWithThePayload(t *testing.T) {
	t.Parallel()
	s := startSystem(t)
	small := s.historyBytes(t, "1-kb", 1<<10)
	large := s.historyBytes(t, "1-mb", 1<<20)
	t.Logf("history of %d bytes for 1 KB of input and result, of %d for 1 MB", small, large)
	if apart := large - small; apart > mostBytesApart || apart < -mostBytesApart {
		t.Errorf("history of %d bytes for 1 KB of input and result, of %d for 1 MB: want the same", small, large)
	}
}

// historyBytes runs a job whose input and result have n bytes.
func (s *system) historyBytes(t *testing.T, key string, n int) int64 {
	t.Helper()
	s.run(t, key, `"`+strings.Repeat("x", n-2)+`"`)
	described, err := s.temporal.DescribeWorkflow(t.Context(), onejob.WorkflowID(s.owner, key), "")
	if err != nil {
		t.Fatal(err)
	}
	return described.RawResponse.WorkflowExecutionInfo.HistorySizeBytes
}
