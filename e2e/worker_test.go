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
	stop := s.startWorker(func(c *worker.Config) { c.Drain = patience })
	job := s.submit(s.request("flies", fmt.Sprintf(`"hold_after": %q`, s.hold("flies"))))
	s.awaitExecution(job.JobID)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	s.release("flies")
	<-stopped
	if a := s.get(job.JobID).Attempts[0]; a.State != onejob.AttemptSucceeded {
		t.Errorf("after the worker's end the attempt is %s (%s)", a.State, a.Reason)
	}
	s.startWorker()
	s.wantOneSuccess(job)
}

func TestWorkerWithoutSchemaSaysSo(t *testing.T) {
	s := newSystem(t)
	empty := pgtest.Open(t, testservers.Database(t))
	w, err := worker.New(s.workerConfig(empty, client.DefaultNamespace))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, onejob.ErrMisconfigured) || !strings.Contains(err.Error(), "onejob migrate up") {
		t.Errorf("got %v", err)
	}
}

func (s *system) workerConfig(store *postgres.Store, namespace string) worker.Config {
	s.t.Helper()
	providers, err := s.config.Providers()
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
	s.eventually("the new namespace answers", func() bool {
		refused = w.Run(t.Context())
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

// misbehaving is an embedded provider that does what its job's input says.
type misbehaving struct{}

func (misbehaving) Call(_ context.Context, call provider.Call) provider.Answer {
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
	mine := provider.Provider{Name: "mine", Adapter: misbehaving{}, Timeout: time.Second, ListenFor: time.Minute}
	s.startWorker(func(c *worker.Config) { c.Providers = c.Providers.With(mine) })
	catalog := s.config.Catalog()
	catalog.Providers["mine"] = onejob.ProviderDefaults{Timeout: mine.Timeout, ListenFor: mine.ListenFor}
	s.starter = starter.New(starter.Options{Store: s.store, Temporal: s.temporal, Catalog: catalog, TaskQueue: s.queue, Logger: quiet})
	for input, want := range map[string]onejob.Status{
		`"well"`: onejob.StatusSucceeded, `"panic"`: onejob.StatusUnknown, `"nothing"`: onejob.StatusUnknown, `"no JSON"`: onejob.StatusUnknown,
	} {
		job := s.submit(onejob.Request{Owner: s.owner, Key: input, Kind: "ticket", Provider: "mine", Input: json.RawMessage(input)})
		detail := s.awaitStatus(job.JobID, want)
		if want == onejob.StatusUnknown && detail.Attempts[0].Reason == onejob.ReasonWorkerLost {
			t.Errorf("%s: the answer was lost: %+v", input, detail.Attempts)
		}
	}
}
