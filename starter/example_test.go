package starter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/starter"
)

// The README's example, as it stands there.
func Example() {
	ctx := context.Background()
	cfg, err := config.Load("onejob.yaml")
	check(err)
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
	check(err)
	temporal, err := client.NewLazyClient(envconfig.MustLoadDefaultClientOptions())
	check(err)
	jobs := starter.New(starter.Options{Store: store, Temporal: temporal, Catalog: cfg.Catalog()})

	submitted, err := jobs.Submit(ctx, onejob.Request{
		Owner: "acme", Key: "sdk-1", Kind: "ticket", Provider: "primary", Fallbacks: []string{"fallback"},
		Input: json.RawMessage(`{"text": "Where is my parcel?"}`),
	})
	if errors.Is(err, onejob.ErrConflict) {
		fmt.Println("the key belongs to another intention")
		return
	}
	check(err)
	done, err := jobs.Wait(ctx, submitted.JobID)
	check(err)
	fmt.Println(done.Status, string(done.Result))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
