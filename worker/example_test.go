package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
)

// myProvider does its work in this process.
type myProvider struct{}

// Call sends the request once, retries nothing, and says only what is certain.
func (myProvider) Call(_ context.Context, call provider.Call) provider.Answer {
	return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage(`{"echo": ` + string(call.Input) + `}`)}
}

// A worker with a provider of the program's own, until an interrupt.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	defer store.Close()
	temporal, err := client.NewLazyClient(envconfig.MustLoadDefaultClientOptions())
	check(err)
	defer temporal.Close()
	w, err := worker.New(worker.Config{Store: store, Temporal: temporal, Namespace: "default", Kinds: map[string]onejob.Kind{"ticket": {}}},
		worker.WithProvider(provider.Provider{Name: "mine", Adapter: myProvider{}, Timeout: 10 * time.Second, ListenFor: 10 * time.Minute}))
	check(err)
	check(w.Run(ctx))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
