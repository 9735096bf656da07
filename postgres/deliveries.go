package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
)

// DeliveryState is how far a delivery is.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending DeliveryState = "pending" // it is sent when its time comes
	DeliveryDone    DeliveryState = "done"    // its receiver took it
	DeliveryDead    DeliveryState = "dead"    // it is not tried again, unless somebody asks for it
)

// FanOutOnce writes the deliveries of the messages in their consumer's transaction: one to each
// enabled endpoint of the owner that was there when it happened and wants the topic, and one to
// the job's own callback_url. Those that are written stay as they are.
func FanOutOnce(ctx context.Context, tx messages.Tx, messageKeys []string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url)
		SELECT o.message_key, o.owner_id, e.id, e.url
		FROM outbox o JOIN webhook_endpoints e ON e.owner_id = o.owner_id
		WHERE o.message_key = ANY ($1) AND e.state = 'enabled' AND e.created_at <= o.created_at
		  AND (e.topics = '{}' OR o.topic = ANY (e.topics))
		UNION ALL
		SELECT o.message_key, o.owner_id, NULL, j.callback_url
		FROM outbox o JOIN jobs j ON j.id = split_part(o.message_key, ':', 2)::uuid AND j.owner_id = o.owner_id
		WHERE o.message_key = ANY ($1) AND j.callback_url IS NOT NULL
		ON CONFLICT (message_key, endpoint_id) DO NOTHING`, messageKeys)
	return err
}

// DueDelivery is a delivery that was taken to be sent.
type DueDelivery struct {
	ID         int64
	Try        int // 1 is the first, and the first that was asked for anew
	Taken      int // tries since ever: this one's name
	Receiver   string
	EndpointID string // empty: the job's own callback_url
	Secret     string // of the endpoint
	URL        string
	MessageKey string
	Topic      string
	Payload    json.RawMessage
	HappenedAt time.Time
}

// Taking is which deliveries are taken.
type Taking struct {
	Most        int            // of all
	PerReceiver int            // of each, those in flight included
	InFlight    map[string]int // by receiver
	MostTries   int            // after which one is dead
	Lease       time.Duration  // one that was taken and never recorded is due again after it
}

// TakeDueDeliveries takes deliveries whose time has come and counts their tries, so that a
// sender which dies in the middle counts too. No receiver takes another's turn: the next
// receiver is found by the index, however many deliveries wait for the one before. Nor does
// an owner of many receivers: each owner's longest due comes before any owner's second.
func (s *Store) TakeDueDeliveries(ctx context.Context, t Taking) ([]DueDelivery, error) {
	receivers, inFlight := make([]string, 0, len(t.InFlight)), make([]int32, 0, len(t.InFlight))
	for receiver, n := range t.InFlight {
		receivers, inFlight = append(receivers, receiver), append(inFlight, int32(n))
	}
	rows, err := s.pool.Query(ctx, takeDueDeliveries,
		t.Most, t.PerReceiver, receivers, inFlight, t.MostTries, t.Lease.Milliseconds(), endpointIsDisabled)
	if err != nil {
		return nil, translate("take the due webhooks", err)
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DueDelivery])
	return due, translate("take the due webhooks", err)
}

const takeDueDeliveries = `
	WITH RECURSIVE receivers AS (
		(SELECT receiver FROM webhook_deliveries WHERE state = 'pending' ORDER BY receiver LIMIT 1)
		UNION ALL
		SELECT (SELECT d.receiver FROM webhook_deliveries d
		        WHERE d.state = 'pending' AND d.receiver > r.receiver ORDER BY d.receiver LIMIT 1)
		FROM receivers r WHERE r.receiver IS NOT NULL
	), found AS MATERIALIZED (
		SELECT d.*
		FROM receivers r LEFT JOIN unnest($3::text[], $4::int[]) AS f (receiver, flying) ON f.receiver = r.receiver,
		LATERAL (
			SELECT id, tries - tries_before AS tries, endpoint_id, owner_id, next_try_at FROM webhook_deliveries
			WHERE state = 'pending' AND receiver = r.receiver AND next_try_at <= now()
			ORDER BY next_try_at LIMIT greatest($2 - coalesce(f.flying, 0), 0) FOR NO KEY UPDATE SKIP LOCKED
		) d
	), due AS MATERIALIZED (
		SELECT id, tries, endpoint_id FROM found
		ORDER BY row_number() OVER (PARTITION BY owner_id ORDER BY next_try_at), next_try_at LIMIT $1
	), judged AS (
		SELECT due.id, coalesce(e.secret, '') AS secret, CASE
			WHEN e.state = 'disabled' THEN $7
			WHEN due.tries >= $5 THEN 'its last try was never recorded: the sender died in it' END AS dead
		FROM due LEFT JOIN webhook_endpoints e ON e.id = due.endpoint_id
	), taken AS (
		UPDATE webhook_deliveries d SET
			state = CASE WHEN j.dead IS NULL THEN 'pending' ELSE 'dead' END,
			tries = d.tries + (j.dead IS NULL)::int,
			next_try_at = clock_timestamp() + $6 * interval '1 millisecond',
			last_error = coalesce(j.dead, d.last_error)
		FROM judged j WHERE d.id = j.id
		RETURNING d.*, j.secret, j.dead
	)
	SELECT t.id, t.tries - t.tries_before, t.tries, t.receiver, coalesce(t.endpoint_id::text, ''), t.secret, t.url, t.message_key, o.topic, o.payload::text, o.created_at
	FROM taken t JOIN outbox o ON o.message_key = t.message_key WHERE t.dead IS NULL ORDER BY t.id`

// MarkDeliveredUnlessDone records that the receiver took the delivery, whichever try it was, and
// also if a later one was the last and failed.
func (s *Store) MarkDeliveredUnlessDone(ctx context.Context, id int64, status int) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE webhook_deliveries SET state = 'done', done_at = clock_timestamp(), last_status = $2, last_error = NULL
		WHERE id = $1 AND state IN ('pending', 'dead')`, id, status)
	return translate("record the delivered webhook", err)
}

// DeliveryFailure is what became of a try that failed.
type DeliveryFailure struct {
	Status int // of the answer; 0: there was none
	Detail string
	Dead   bool          // it is not tried again
	After  time.Duration // otherwise: after this time
}

// MarkFailedIfLatestTry records a failed try, named by its Taken, unless a later one was
// taken or it was delivered.
func (s *Store) MarkFailedIfLatestTry(ctx context.Context, id int64, taken int, f DeliveryFailure) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE webhook_deliveries SET state = CASE WHEN $5 THEN 'dead' ELSE 'pending' END, last_status = $3, last_error = $4,
			next_try_at = clock_timestamp() + $6 * interval '1 millisecond'
		WHERE id = $1 AND tries = $2 AND state = 'pending'`,
		id, taken, nullable(f.Status), f.Detail, f.Dead, f.After.Milliseconds())
	return translate("record the failed webhook", err)
}

// Delivery is a delivery as people read it.
type Delivery struct {
	ID         int64         `json:"id"`
	Owner      string        `json:"owner"`
	EndpointID string        `json:"endpoint_id,omitempty"` // absent: the job's own callback_url
	MessageKey string        `json:"message_key"`
	URL        string        `json:"url"`
	State      DeliveryState `json:"state"`
	Tries      int           `json:"tries"`
	NextTryAt  time.Time     `json:"next_try_at,omitzero"` // of a pending one
	LastStatus int           `json:"last_status,omitempty"`
	LastError  string        `json:"last_error,omitempty"`
	DoneAt     time.Time     `json:"done_at,omitzero"`
}

// DeliveryFilter says which deliveries are listed. An empty field takes all.
type DeliveryFilter struct {
	Owner      string
	EndpointID string // a UUID
	State      DeliveryState
	Before     int64 // the page after the one that ended with this delivery
	Limit      int
}

// DeliveryPage is some of the deliveries that a filter selects.
type DeliveryPage struct {
	Deliveries []Delivery
	Next       int64 // the next page's DeliveryFilter.Before; 0: there is none
}

// Deliveries returns deliveries, the newest first.
func (s *Store) Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, error) {
	deliveries := []Delivery{}
	for {
		page, err := s.DeliveriesPage(ctx, f)
		deliveries, f.Before, f.Limit = append(deliveries, page.Deliveries...), page.Next, f.Limit-len(page.Deliveries)
		if err != nil || page.Next == 0 || f.Limit <= 0 {
			return deliveries, err
		}
	}
}

// DeliveriesPage returns one page of what [Store.Deliveries] would return. It walks along an index
// and looks at 5000 deliveries at most, so a page may have fewer than there is room for, none even,
// and a next page all the same.
func (s *Store) DeliveriesPage(ctx context.Context, f DeliveryFilter) (page DeliveryPage, err error) {
	along, wanted := f.walk()
	where, args := along.where()
	if len(wanted) > 0 {
		err = s.pool.QueryRow(ctx, `SELECT id FROM webhook_deliveries`+where+fmt.Sprintf(" ORDER BY id DESC OFFSET %d LIMIT 1", mostLooked-1), args...).Scan(&page.Next)
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return page, translate("list the webhook deliveries", err)
	}
	if page.Next > 0 {
		along.add("id >= $%d", page.Next)
	}
	where, args = slices.Concat(along, wanted).where()
	rows, err := s.pool.Query(ctx, `SELECT `+deliveryColumns+` FROM webhook_deliveries`+where+fmt.Sprintf(" ORDER BY id DESC LIMIT %d", f.Limit+1), args...)
	if err != nil {
		return page, translate("list the webhook deliveries", err)
	}
	if page.Deliveries, err = pgx.CollectRows(rows, scanDelivery); err == nil && len(page.Deliveries) > f.Limit {
		page.Deliveries = page.Deliveries[:f.Limit]
		page.Next = page.Deliveries[f.Limit-1].ID
	}
	return page, translate("list the webhook deliveries", err)
}

// walk is along the index of the endpoint, else of the owner, else of the dead ones, else of all.
func (f DeliveryFilter) walk() (along, wanted conditions) {
	owner, state := &along, &wanted
	if f.EndpointID != "" {
		along.add("endpoint_id = $%d::uuid", f.EndpointID)
		owner = &wanted
	} else if f.Owner == "" && f.State == DeliveryDead {
		state = &along
	}
	owner.equal("owner_id", f.Owner)
	if f.State == DeliveryDead {
		state.add("state = 'dead'") // the index's own words
	} else {
		state.equal("state", string(f.State))
	}
	if f.Before > 0 {
		along.add("id < $%d", f.Before)
	}
	return along, wanted
}

const deliveryColumns = `id, owner_id, endpoint_id::text, message_key, url, state, tries - tries_before,
	CASE state WHEN 'pending' THEN next_try_at END, last_status, last_error, done_at`

func scanDelivery(row pgx.CollectableRow) (d Delivery, err error) {
	var endpoint, lastError *string
	var status *int
	var next, done *time.Time
	err = row.Scan(&d.ID, &d.Owner, &endpoint, &d.MessageKey, &d.URL, &d.State, &d.Tries, &next, &status, &lastError, &done)
	d.EndpointID, d.LastError, d.LastStatus = orZero(endpoint), orZero(lastError), orZero(status)
	d.NextTryAt, d.DoneAt = orZero(next).UTC(), orZero(done).UTC()
	return d, err
}

// RedeliverIfEndpointEnabled makes the delivery due at once, its tries counted anew, also one
// that was delivered. It fails with [onejob.ErrNotFound], and with
// [onejob.ErrNothingToResolve] if the endpoint is disabled.
func (s *Store) RedeliverIfEndpointEnabled(ctx context.Context, id int64) (d Delivery, err error) {
	err = s.inTx(ctx, "redeliver the webhook", func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE webhook_deliveries d SET state = 'pending', tries_before = tries, done_at = NULL, next_try_at = clock_timestamp()
			WHERE d.id = $1 AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = d.endpoint_id AND e.state = 'disabled')`, id)
		if err != nil {
			return err
		}
		if d, err = readDelivery(ctx, tx, id); err == nil && tag.RowsAffected() == 0 {
			err = onejob.Errorf(onejob.CodeNothingToResolve, "delivery %d goes to endpoint %s, which is disabled: add the endpoint again", id, d.EndpointID)
		}
		return err
	})
	return d, err
}

// Delivery returns the delivery of that id. It fails with [onejob.ErrNotFound].
func (s *Store) Delivery(ctx context.Context, id int64) (Delivery, error) {
	d, err := readDelivery(ctx, s.pool, id)
	return d, translate("read the webhook delivery", err)
}

func readDelivery(ctx context.Context, q querier, id int64) (Delivery, error) {
	rows, err := q.Query(ctx, `SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE id = $1`, id)
	if err != nil {
		return Delivery{}, err
	}
	d, err := pgx.CollectExactlyOneRow(rows, scanDelivery)
	return d, orNotFound(err, "webhook delivery %d does not exist: see 'onejob webhook deliveries'", id)
}
