package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

func TestStoppedWorkerRecordsWhatStillHangsAsUnknown(t *testing.T) {
	s := newSystem(t)
	stop := s.startWorker(func(c *worker.Config) { c.Drain = 100 * time.Millisecond })
	job := s.submit(s.request("hangs", fmt.Sprintf(`"hold_after": %q`, s.hold("hangs"))))
	s.awaitExecution(job.JobID)
	stop()
	if a := s.get(job.JobID).Attempts[0]; a.State != onejob.AttemptUnknown || a.Reason != onejob.ReasonWorkerShutdown {
		t.Errorf("after the worker's end the attempt is %s (%s)", a.State, a.Reason)
	}
	s.release("hangs")
}

func TestStoppingWorkerWaitsForACallInFlight(t *testing.T) {
	s := newSystem(t)
	called := make(chan struct{})
	stop := s.embed(func(ctx context.Context, _ provider.Call) provider.Answer {
		close(called)
		<-activity.GetWorkerStopChannel(ctx)
		select { // it takes its time
		case <-ctx.Done():
			return provider.Answer{Certainty: provider.Unknown}
		case <-time.After(time.Second):
			return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage("1")}
		}
	}, func(c *worker.Config) { c.Drain = patience })
	job := s.submit(s.embedded("flies"))
	<-called
	stop()
	if a := s.get(job.JobID).Attempts[0]; a.State != onejob.AttemptSucceeded {
		t.Errorf("after the worker's end the attempt is %s (%s)", a.State, a.Reason)
	}
	s.startWorker()
	if done := s.wait(job.JobID); done.CompletedBy != 1 || len(done.Attempts) != 1 {
		t.Errorf("the next worker made of it %+v", done.View)
	}
}

// adapter is a provider of a test's own.
type adapter func(context.Context, provider.Call) provider.Answer

func (a adapter) Call(ctx context.Context, call provider.Call) provider.Answer { return a(ctx, call) }

// embed starts a worker with the provider "mine", and lets requests name it.
func (s *system) embed(mine adapter, change ...func(*worker.Config)) (stop func()) {
	s.t.Helper()
	p := provider.Provider{Name: "mine", Adapter: mine, Timeout: 10 * time.Second, ListenFor: time.Hour}
	catalog := s.config.Catalog()
	catalog.Providers[p.Name] = onejob.ProviderDefaults{Timeout: p.Timeout, ListenFor: p.ListenFor}
	s.starter = starter.New(starter.Options{Store: s.store, Temporal: s.temporal, Catalog: catalog, TaskQueue: s.queue, Logger: quiet})
	return s.startWorker(append(change, func(c *worker.Config) { c.Providers = c.Providers.With(p) })...)
}

// embedded is a request to the provider "mine".
func (s *system) embedded(key string) onejob.Request {
	r := s.request(key, "")
	r.Provider = "mine"
	return r
}

func TestWorkerWithoutSchemaSaysSo(t *testing.T) {
	s := newSystem(t)
	empty := pgtest.Open(t, testservers.Database(t))
	w, err := worker.New(s.workerConfig(empty, client.DefaultNamespace))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.Run(ctx); !errors.Is(err, onejob.ErrMisconfigured) || !strings.Contains(err.Error(), "onejob migrate up") {
		t.Errorf("got %v", err)
	}
}

func (s *system) workerConfig(store *postgres.Store, namespace string) worker.Config {
	s.t.Helper()
	providers, err := s.config.Adapters()
	if err != nil {
		s.t.Fatal(err)
	}
	return worker.Config{Store: store, Temporal: s.temporal, Namespace: namespace, Providers: provider.NewRegistry(providers...), TaskQueue: s.queue, Logger: quiet}
}

func TestNamespaceWithoutSearchAttributesIsNamed(t *testing.T) {
	s := newSystem(t)
	namespace := "bare-" + uuid.NewString()
	if _, err := s.temporal.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(s.workerConfig(s.store, namespace))
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.eventually("the new namespace answers", func() bool {
		refused = w.Run(ctx)
		return errors.Is(refused, onejob.ErrMisconfigured) && !strings.Contains(refused.Error(), "has no namespace")
	})
	if !strings.Contains(refused.Error(), "OnejobStatus") || !strings.Contains(refused.Error(), "onejob migrate up") {
		t.Errorf("got %v, want the missing attributes and the remedy", refused)
	}
	if _, err := workflows.RegisterSearchAttributes(t.Context(), s.temporal, namespace); err != nil {
		t.Fatal(err)
	}
	s.eventually("the attributes are there", func() bool { return workflows.CheckSearchAttributes(t.Context(), s.temporal, namespace) == nil })
}

// misbehave does what the job's input says.
func misbehave(_ context.Context, call provider.Call) provider.Answer {
	switch string(call.Input) {
	case `"panic"`:
		panic("as asked")
	case `"nothing"`:
		return provider.Answer{}
	case `"no JSON"`:
		return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage("{")}
	}
	return provider.Answer{Certainty: provider.Succeeded, Result: call.Input}
}

func TestEmbeddedProviderMayMisbehave(t *testing.T) {
	s := newSystem(t)
	s.embed(misbehave)
	for input, want := range map[string]onejob.Status{
		`"well"`: onejob.StatusSucceeded, `"panic"`: onejob.StatusUnknown, `"nothing"`: onejob.StatusUnknown, `"no JSON"`: onejob.StatusUnknown,
	} {
		r := s.embedded(input)
		r.Input = json.RawMessage(input)
		job := s.submit(r)
		detail := s.awaitStatus(job.JobID, want)
		if want == onejob.StatusUnknown && detail.Attempts[0].Reason == onejob.ReasonWorkerLost {
			t.Errorf("%s: the answer was lost: %+v", input, detail.Attempts)
		}
	}
}
