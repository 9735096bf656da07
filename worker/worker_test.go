package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.uber.org/goleak"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
)

// silent never answers before its caller hangs up.
type silent struct{ called chan<- struct{} }

func (s silent) Call(ctx context.Context, _ provider.Call) provider.Answer {
	s.called <- struct{}{}
	<-ctx.Done()
	return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonConnectionLost}
}

// Not parallel: it counts the goroutines of the whole process.
func TestStoppedWorkerLeavesNoGoroutine(t *testing.T) {
	store := pgtest.Store(t)
	address, namespace := testservers.Temporal(t)
	before := goleak.IgnoreCurrent()
	temporal, err := client.Dial(client.Options{HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan struct{}, 1)
	w, err := worker.New(worker.Config{
		Store: store, Temporal: temporal, Namespace: namespace, Kinds: map[string]onejob.Kind{"ticket": {}}, TaskQueue: uuid.NewString(),
		HeartbeatTimeout: 3 * time.Second, Drain: 50 * time.Millisecond, Logger: quiet,
	}, worker.WithProvider(provider.Provider{Name: "silent", Adapter: silent{called}, Timeout: time.Second, ListenFor: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	jobs := starter.New(starter.Options{Store: store, Temporal: temporal, Catalog: w.Catalog(), TaskQueue: w.TaskQueue(), Logger: quiet})
	if _, err := jobs.Submit(t.Context(), onejob.Request{Owner: uuid.NewString(), Key: "k", Kind: "ticket", Provider: "silent", Input: json.RawMessage("null")}); err != nil {
		t.Fatal(err)
	}
	<-called
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	temporal.Close()
	store.Close()
	goleak.VerifyNone(t, before)
}
