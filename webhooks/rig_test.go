package webhooks_test

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/webhooks"
)

// rig is a store on a database of the test's own, and an owner in it.
type rig struct {
	store *postgres.Store
	hand  *pgxpool.Pool
	owner string
}

func newRig(t *testing.T) rig {
	t.Helper()
	address := pgtest.URL(t)
	hand, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hand.Close)
	return rig{store: pgtest.Open(t, address), hand: hand, owner: rand.Text()}
}

// inside lets receivers be on this machine.
var inside = webhooks.Policy{AllowPrivate: true, Timeout: 5 * time.Second, CallbackSecrets: []string{callbackSecret}}

const callbackSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// sender returns a sender that the options change.
func (r rig) sender(policy webhooks.Policy, with ...func(*webhooks.Options)) *webhooks.Sender {
	options := webhooks.Options{Store: r.store, Policy: policy, Logger: slog.New(slog.DiscardHandler)}
	for _, change := range with {
		change(&options)
	}
	return webhooks.NewSender(options)
}

// endpoint adds an endpoint of the rig's owner.
func (r rig) endpoint(t *testing.T, url string, topics ...string) postgres.Endpoint {
	t.Helper()
	e, err := inside.NewEndpoint(r.owner, url, topics)
	if err != nil {
		t.Fatal(err)
	}
	added, err := r.store.AddEndpointOnce(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// happened writes a job's message and returns it. The URL is the job's callback_url, if any.
func (r rig) happened(t *testing.T, topic, callbackURL string) messages.Message {
	t.Helper()
	job, err := onejob.NewJob(onejob.Request{Owner: r.owner, Key: rand.Text(), Kind: "ticket", Provider: "p", Input: json.RawMessage("1"), CallbackURL: callbackURL},
		onejob.Catalog{Kinds: map[string]onejob.Kind{"ticket": {}}, Providers: map[string]onejob.ProviderDefaults{"p": {Timeout: time.Second, ListenFor: time.Second}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.InsertJobs(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	m := messages.Message{Key: topic + ":" + job.ID, Owner: r.owner, Topic: topic, Payload: json.RawMessage(`{"job_id": "` + job.ID + `", "note": "<é>"}`)}
	if topic == "job.failed" {
		m.Key += ":0"
	}
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ($1, $2, $3, $4)`, m.Key, m.Owner, m.Topic, string(m.Payload))
	return m
}

func (r rig) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := r.hand.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// apply applies the messages as their group does.
func (r rig) apply(t *testing.T, batch ...messages.Message) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error { return webhooks.Consumer.Apply(t.Context(), tx, batch) })
	if err != nil {
		t.Error(err)
	}
}

// told adds an endpoint at the URL and a delivery to it.
func (r rig) told(t *testing.T, url string) (postgres.Endpoint, messages.Message) {
	t.Helper()
	e := r.endpoint(t, url)
	m := r.happened(t, "job.succeeded", "")
	r.apply(t, m)
	return e, m
}

// letTimePass makes every delivery due.
func (r rig) letTimePass(t *testing.T) {
	t.Helper()
	r.exec(t, `UPDATE webhook_deliveries SET next_try_at = clock_timestamp() - interval '1 second'`)
}

// send makes one try of what is due, and returns how many there were.
func send(t *testing.T, s *webhooks.Sender) int {
	t.Helper()
	n, err := s.SendDue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// deliveries returns the owner's deliveries, the oldest first.
func (r rig) deliveries(t *testing.T) []postgres.Delivery {
	t.Helper()
	all, err := r.store.Deliveries(t.Context(), postgres.DeliveryFilter{Owner: r.owner, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// delivery returns the owner's only delivery.
func (r rig) delivery(t *testing.T) postgres.Delivery {
	t.Helper()
	all := r.deliveries(t)
	if len(all) != 1 {
		t.Fatalf("there are %d deliveries: %+v", len(all), all)
	}
	return all[0]
}

// heard is what a receiver got.
type heard struct {
	header http.Header
	body   []byte
}

// receiver is a server that notes what it hears and answers by what it was given.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	all []heard
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.all = append(r.all, heard{req.Header, body})
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) heard() []heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// status answers with the status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
