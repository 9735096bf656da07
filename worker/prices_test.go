package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
)

// inquisitive reads the stored prices when it is called.
type inquisitive struct {
	store *postgres.Store
	found chan<- []postgres.StoredPrice
}

func (i inquisitive) Call(ctx context.Context, _ provider.Call) provider.Answer {
	prices, err := i.store.Prices(ctx, "")
	if err != nil {
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonConnectionLost, Detail: err.Error()}
	}
	i.found <- prices
	return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage("1")}
}

func TestPricesAreStoredBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t)
	address, namespace := testservers.Temporal(t)
	temporal, err := client.Dial(client.Options{HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(temporal.Close)
	price, err := onejob.ParseAmount("0.002")
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan []postgres.StoredPrice, 1)
	w, err := worker.New(worker.Config{
		Store: store, Temporal: temporal, Namespace: namespace, Kinds: map[string]onejob.Kind{"ticket": {}}, TaskQueue: uuid.NewString(),
		Drain: 50 * time.Millisecond, Logger: quiet, Prices: []onejob.Price{{Provider: "mine", Unit: "call", Price: price, Currency: "USD"}},
	}, worker.WithProvider(provider.Provider{Name: "mine", Adapter: inquisitive{store, found}, Timeout: 10 * time.Second, ListenFor: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	jobs := starter.New(starter.Options{Store: store, Temporal: temporal, Catalog: w.Catalog(), TaskQueue: w.TaskQueue(), Logger: quiet})
	if _, err := jobs.Submit(t.Context(), onejob.Request{Owner: uuid.NewString(), Key: "k", Kind: "ticket", Provider: "mine", Input: json.RawMessage("null")}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if prices := <-found; len(prices) != 1 || prices[0].Provider != "mine" || prices[0].Price.Cmp(price) != 0 || !prices[0].Current {
		t.Errorf("the first call finds %+v", prices)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
