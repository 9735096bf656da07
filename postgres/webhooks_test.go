package postgres_test

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// endpoint adds a webhook endpoint of the owner.
func (r rig) endpoint(t testing.TB, owner string) postgres.Endpoint {
	t.Helper()
	e, err := r.store.AddEndpointOnce(t.Context(), postgres.Endpoint{ID: uuid.NewString(), Owner: owner, URL: "https://receiver.example", Secret: "whsec_" + rand.Text()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// toldJob writes a message of the owner and returns its key.
func (r rig) toldJob(t testing.TB, owner string) string {
	t.Helper()
	key := "job.succeeded:" + uuid.NewString()
	if _, err := r.hand.Exec(t.Context(), `INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ($1, $2, 'job.succeeded', '{}')`, key, owner); err != nil {
		t.Fatal(err)
	}
	return key
}

func TestDeliveryBelongsToItsMessagesOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine, other := r.endpoint(t, "me"), r.endpoint(t, "other")
	key := r.toldJob(t, "me")
	insert := func(key, owner, endpoint string) string {
		return fmt.Sprintf(`INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url) VALUES ('%s', '%s', %s, 'https://x.example')`, key, owner, endpoint)
	}
	for _, endpoint := range []string{"'" + mine.ID + "'", "NULL"} {
		if _, err := r.hand.Exec(t.Context(), insert(key, "me", endpoint)); err != nil {
			t.Fatalf("a legal delivery is refused: %v", err)
		}
		r.mustRefuse(t, "webhook_deliveries_once", insert(key, "me", endpoint))
	}
	r.mustRefuse(t, "webhook_deliveries_endpoint", insert(key, "me", "'"+other.ID+"'"))
	r.mustRefuse(t, "webhook_deliveries_message", insert(key, "other", "'"+other.ID+"'"))
	r.mustRefuse(t, "webhook_deliveries_message", insert("job.succeeded:none", "me", "NULL"))
	r.mustRefuse(t, "onejob_name_not_blank", insert(key, " ", "NULL"))
	for column, value := range map[string]string{"message_key": "'x'", "owner_id": "'other'", "endpoint_id": "gen_random_uuid()", "url": "'https://y.example'", "id": "DEFAULT"} {
		r.mustRefuse(t, "never changes", fmt.Sprintf(`UPDATE webhook_deliveries SET %s = %s WHERE endpoint_id IS NULL`, column, value))
	}
	r.mustRefuse(t, "webhook_deliveries_done", `UPDATE webhook_deliveries SET state = 'done'`)
	r.mustRefuse(t, "webhook_deliveries_state_check", `UPDATE webhook_deliveries SET state = 'lost'`)
}

func TestHandWrittenEndpointIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoint(t, "me")
	for column, value := range map[string]string{"id": "gen_random_uuid()", "owner_id": "'other'", "url": "'https://y.example'", "secret": "'whsec_x'", "created_at": "now()"} {
		r.mustRefuse(t, "never changes", fmt.Sprintf(`UPDATE webhook_endpoints SET %s = %s`, column, value))
	}
	r.mustRefuse(t, "webhook_endpoints_reason", `UPDATE webhook_endpoints SET state = 'disabled'`)
	insert := `INSERT INTO webhook_endpoints (id, owner_id, url, secret, topics) VALUES (gen_random_uuid(), %s, %s, %s, %s)`
	r.mustRefuse(t, "onejob_name_not_blank", fmt.Sprintf(insert, "''", "'u'", "'whsec_x'", "'{}'"))
	r.mustRefuse(t, "webhook_endpoints_url_check", fmt.Sprintf(insert, "'o'", "''", "'whsec_x'", "'{}'"))
	r.mustRefuse(t, "webhook_endpoints_secret_check", fmt.Sprintf(insert, "'o'", "'u'", "'secret'", "'{}'"))
	r.mustRefuse(t, "webhook_endpoints_topics_check", fmt.Sprintf(insert, "'o'", "'u'", "'whsec_x'", "'{job.started}'"))
}

// A try from before somebody asked for the delivery anew decides nothing about the new one, and
// what a receiver took is done, whatever was recorded before.
func TestTryFromBeforeARedeliverDoesNotDecideTheNewOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.endpoint(t, "me")
	r.exec(t, `INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url) VALUES ($1, 'me', $2, 'https://x.example')`, r.toldJob(t, "me"), e.ID)
	take := func() postgres.DueDelivery {
		t.Helper()
		due, err := r.store.TakeDueDeliveries(t.Context(), postgres.Taking{Most: 9, PerReceiver: 4, MostTries: 13, Lease: time.Minute})
		if err != nil || len(due) != 1 || due[0].Try != 1 {
			t.Fatalf("%+v, %v", due, err)
		}
		return due[0]
	}
	state := func(want postgres.DeliveryState) {
		t.Helper()
		if d, err := r.store.Deliveries(t.Context(), postgres.DeliveryFilter{Limit: 1}); err != nil || d[0].State != want || d[0].Tries != 1 {
			t.Errorf("%+v, %v, want %s", d, err, want)
		}
	}
	fail := func(d postgres.DueDelivery) {
		t.Helper()
		if err := r.store.MarkFailedIfLatestTry(t.Context(), d.ID, d.Taken, postgres.DeliveryFailure{Detail: "gone", Dead: true}); err != nil {
			t.Fatal(err)
		}
	}
	old := take()
	if _, err := r.store.RedeliverIfEndpointEnabled(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	anew := take()
	fail(old)
	state(postgres.DeliveryPending)
	fail(anew)
	state(postgres.DeliveryDead)
	if err := r.store.MarkDeliveredUnlessDone(t.Context(), anew.ID, 200); err != nil {
		t.Fatal(err)
	}
	state(postgres.DeliveryDone)
}

func TestRemovedEndpointKeepsItsHistoryAndFirstReason(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e := r.endpoint(t, "me")
	key := r.toldJob(t, "me")
	if _, err := r.hand.Exec(t.Context(), `INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url) VALUES ($1, 'me', $2, 'https://x.example')`, key, e.ID); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"first", "second"} {
		if got, err := r.store.DisableEndpointIfEnabled(t.Context(), e.ID, reason); err != nil || got.State != postgres.EndpointDisabled || got.DisabledReason != "first" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	deliveries, err := r.store.Deliveries(t.Context(), postgres.DeliveryFilter{Owner: "me", State: postgres.DeliveryDead, Limit: 10})
	if err != nil || len(deliveries) != 1 || deliveries[0].LastError != "its endpoint is disabled" {
		t.Fatalf("%+v, %v", deliveries, err)
	}
	_, err = r.store.RedeliverIfEndpointEnabled(t.Context(), deliveries[0].ID)
	mustBe(t, err, onejob.ErrNothingToResolve)
	_, err = r.store.RedeliverIfEndpointEnabled(t.Context(), 4711)
	mustBe(t, err, onejob.ErrNotFound)
	for _, id := range []string{uuid.NewString(), "none", ""} {
		_, err = r.store.DisableEndpointIfEnabled(t.Context(), id, "r")
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.Endpoint(t.Context(), id)
		mustBe(t, err, onejob.ErrNotFound)
	}
}

func TestOwnerOfManyReceiversTakesNobodysTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fixtures(t, `
		INSERT INTO webhook_deliveries (message_key, owner_id, url, next_try_at)
		SELECT 'job.failed:' || n, CASE WHEN n > 200 THEN 'small' ELSE 'many' END, 'https://h' || n || '.example', now() - interval '1 day' + n * interval '1 minute' FROM generate_series(1, 202) n`)
	r.fixtures(t, `INSERT INTO outbox (message_key, owner_id, topic, payload) SELECT message_key, owner_id, 'job.failed', '{}' FROM webhook_deliveries`)
	due, err := r.store.TakeDueDeliveries(t.Context(), postgres.Taking{Most: 8, PerReceiver: 4, MostTries: 13, Lease: time.Hour})
	if err != nil || len(due) != 8 {
		t.Fatalf("%d, %v", len(due), err)
	}
	if n := r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE owner_id = 'small' AND tries = 1`); n != 2 {
		t.Errorf("%d of the small owner's 2 were taken", n)
	}
}

// Backlogs of one receiver must not make the others' turn dear.
func TestNextReceiverIsFoundByTheIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fixtures(t, `
		INSERT INTO webhook_deliveries (message_key, owner_id, url)
		SELECT 'job.succeeded:' || n, 'me', 'https://' || CASE WHEN n % 1000 = 0 THEN 'fast' || n ELSE 'slow' END || '.example/' || n FROM generate_series(1, 50000) n`)
	r.fixtures(t, `INSERT INTO outbox (message_key, owner_id, topic, payload) SELECT message_key, 'me', 'job.succeeded', '{}' FROM webhook_deliveries`)
	if _, err := r.hand.Exec(t.Context(), `ANALYZE webhook_deliveries`); err != nil {
		t.Fatal(err)
	}
	taking := postgres.Taking{Most: 100, PerReceiver: 4, MostTries: 3, Lease: 3600e9, InFlight: map[string]int{"slow.example": 3, "fast1000.example": 4}}
	due, err := r.store.TakeDueDeliveries(t.Context(), taking)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]int{}
	for _, d := range due {
		taken[d.Receiver]++
	}
	if len(due) != 50 || taken["slow.example"] != 1 || taken["fast2000.example"] != 1 || taken["fast1000.example"] != 0 {
		t.Errorf("took %d: %v", len(due), taken)
	}
	r.countReads(t, r.store)
	if read := r.count(t, `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'webhook_deliveries_due'`); read < 51 || read > 1000 {
		t.Errorf("%d entries of 50000 read for 51 receivers", read)
	}
}

// TestPageOfDeliveriesLooksAtABoundedNumber: a rare one behind many costs several pages, none of
// which walks through everything.
func TestPageOfDeliveriesLooksAtABoundedNumber(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	endpoint, key := r.endpoint(t, "acme"), r.toldJob(t, "acme")
	loader, err := pgxpool.New(t.Context(), withParameter(t, r.url, "application_name", "onejob"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url, state) SELECT '` + key + `', 'acme', id, url, 'dead' FROM webhook_endpoints`,
		`INSERT INTO outbox (message_key, owner_id, topic, payload) SELECT 'job.succeeded:many-' || n, 'acme', 'job.succeeded', '{}' FROM generate_series(1, 12000) n`,
		`INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url) SELECT 'job.succeeded:many-' || n, 'acme', e.id, e.url FROM webhook_endpoints e, generate_series(1, 12000) n`,
		`ANALYZE webhook_deliveries`,
	} {
		if _, err := loader.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	loader.Close()
	r.countReads(t, r.store) // of the set-up, before they are forgotten
	filters := map[string]postgres.DeliveryFilter{
		"of an owner":    {Owner: "acme", State: postgres.DeliveryDead, Limit: 10},
		"of an endpoint": {Owner: "acme", EndpointID: endpoint.ID, State: postgres.DeliveryDead, Limit: 10},
	}
	for name, f := range filters {
		r.exec(t, `SELECT pg_stat_reset()`)
		watched := r.through(t, withParameter(t, r.url, "enable_seqscan", "off"))
		page, err := watched.store.DeliveriesPage(t.Context(), f)
		if err != nil || len(page.Deliveries) != 0 || page.Next == 0 {
			t.Fatalf("%s: the first page has %d deliveries and the next %d, %v", name, len(page.Deliveries), page.Next, err)
		}
		r.countReads(t, watched.store)
		const walks = 2 * 5000
		if n := r.count(t, `SELECT sum(idx_tup_read)::int FROM pg_stat_user_indexes WHERE relname = 'webhook_deliveries'`); n == 0 || n > walks+100 {
			t.Errorf("%s: it read %d entries of indexes, want %d", name, n, walks)
		}
	}
	filters["of everybody"] = postgres.DeliveryFilter{State: postgres.DeliveryDead, Limit: 10}
	store := r.through(t, r.url).store
	for name, f := range filters {
		all, err := store.Deliveries(t.Context(), f)
		if err != nil || len(all) != 1 || all[0].MessageKey != key {
			t.Errorf("%s: all pages together have %d deliveries, %v", name, len(all), err)
		}
	}
}
