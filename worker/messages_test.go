package worker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
)

func TestWorkerCarriesMessagesAndShowsThem(t *testing.T) {
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	url := pgtest.URL(t)
	store, hand, metrics := pgtest.Open(t, url), pgtest.Connect(t, url), worker.NewMetrics()
	fail := errors.New("no")
	w, err := worker.New(worker.Config{
		Store: store, Temporal: dial(t, address, namespace, nil), Namespace: namespace, TaskQueue: uuid.NewString(),
		Metrics: metrics, ReconcileEvery: 20 * time.Millisecond, KeepMessages: time.Hour, Logger: quiet,
	},
		worker.WithProvider(provider.Provider{Name: "obedient", Adapter: obedient{}, Timeout: time.Second, ListenFor: time.Minute}),
		worker.WithConsumer(messages.Consumer{
			Group: "mine", Topics: []string{"thing.happened"}, MaxTries: 1,
			Apply: func(_ context.Context, _ messages.Tx, batch []messages.Message) error {
				if slices.ContainsFunc(batch, func(m messages.Message) bool { return m.Owner == "poison" }) {
					return fail
				}
				return nil
			},
		}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hand.Exec(t.Context(), `
		INSERT INTO outbox (message_key, owner_id, topic, payload, created_at)
		SELECT 'thing.happened:' || o, o, 'thing.happened', '{}'::json, now() FROM unnest(ARRAY['a', 'b', 'poison']) o
		UNION ALL SELECT 'other:1', 'a', 'other', '{}'::json, now() - interval '2 hours'`); err != nil {
		t.Fatal(err)
	}
	if _, err := hand.Exec(t.Context(), `
		INSERT INTO webhook_deliveries (message_key, owner_id, url, state, next_try_at)
		VALUES ('thing.happened:a', 'a', 'https://x.example', 'pending', now() + interval '1 hour'), ('thing.happened:b', 'b', 'https://x.example', 'dead', now())`); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	awaitMetrics(t, serve(t, worker.Health{Store: store, Metrics: metrics})+"/metrics",
		`onejob_messages_applied_total{group="mine"} 2`, `onejob_messages_failed_total{group="mine"} 1`,
		`onejob_messages_dead{group="mine"} 1`, `onejob_messages_pending{group="mine"} 0`, `onejob_messages_oldest_seconds{group="mine"} 0`,
		`onejob_messages_pending{group="usage_daily"} 0`, `onejob_messages_pending{group="referral_credit"} 0`,
		`onejob_webhooks_pending 1`, `onejob_webhooks_dead 1`)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var old int
	if err := hand.QueryRow(t.Context(), `SELECT count(*) FROM outbox WHERE topic = 'other'`).Scan(&old); err != nil || old > 0 {
		t.Errorf("%d old messages are kept, %v", old, err)
	}
}

func TestConsumerThatCannotBeSubscribedEndsTheWorkerAndIsNamed(t *testing.T) {
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	url := pgtest.URL(t)
	if _, err := pgtest.Connect(t, url).Exec(t.Context(), `ALTER TABLE subscriptions ADD CONSTRAINT no_mailing CHECK (consumer_group <> 'mailing')`); err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Config{
		Store: pgtest.Open(t, url), Temporal: dial(t, address, namespace, nil), Namespace: namespace, TaskQueue: uuid.NewString(), Logger: quiet,
	},
		worker.WithProvider(provider.Provider{Name: "obedient", Adapter: obedient{}, Timeout: time.Second, ListenFor: time.Minute}),
		worker.WithConsumer(messages.Consumer{Group: "mailing", Topics: []string{"t"}, Apply: func(context.Context, messages.Tx, []messages.Message) error { return nil }}))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); !errors.Is(err, onejob.ErrInternal) || !strings.Contains(err.Error(), "group mailing") || strings.Contains(err.Error(), "temporal") {
		t.Error(err)
	}
}

// awaitMetrics waits until all lines are told.
func awaitMetrics(t *testing.T, url string, lines ...string) {
	t.Helper()
	var missing []string
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-ticker.C {
		_, body := get(t, url)
		missing = slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(body, line+"\n") })
		if len(missing) == 0 {
			return
		}
	}
	t.Fatalf("not told: %s", strings.Join(missing, "\n"))
}

func TestConsumerOfATakenGroupIsRefused(t *testing.T) {
	t.Parallel()
	_, err := worker.New(worker.Config{Namespace: "n"},
		worker.WithProvider(provider.Provider{Name: "obedient", Adapter: obedient{}}),
		worker.WithConsumer(messages.Consumer{Group: "usage_daily", Topics: []string{"t"}, Apply: func(context.Context, messages.Tx, []messages.Message) error { return nil }}))
	if !errors.Is(err, onejob.ErrMisconfigured) || !strings.Contains(err.Error(), "usage_daily") {
		t.Error(err)
	}
}
