package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// EndpointState is whether an endpoint is told.
type EndpointState string

// The states of an endpoint. A disabled one stays, with its history.
const (
	EndpointEnabled  EndpointState = "enabled"
	EndpointDisabled EndpointState = "disabled"
)

// Endpoint is where an owner is told of its jobs.
type Endpoint struct {
	ID             string        `json:"id"`
	Owner          string        `json:"owner"`
	URL            string        `json:"url"`
	Secret         string        `json:"-"`      // of Standard Webhooks; printed once, by whoever adds it
	Topics         []string      `json:"topics"` // empty: all
	State          EndpointState `json:"state"`
	DisabledReason string        `json:"disabled_reason,omitempty"`
	CreatedAt      time.Time     `json:"created_at"`
}

const endpointColumns = `id::text, owner_id, url, secret, topics, state, disabled_reason, created_at`

func scanEndpoint(row pgx.CollectableRow) (e Endpoint, err error) {
	var reason *string
	err = row.Scan(&e.ID, &e.Owner, &e.URL, &e.Secret, &e.Topics, &e.State, &reason, &e.CreatedAt)
	e.DisabledReason, e.CreatedAt = orZero(reason), e.CreatedAt.UTC()
	return e, err
}

// AddEndpointOnce inserts the endpoint under its id, unless it is there, and returns it.
func (s *Store) AddEndpointOnce(ctx context.Context, e Endpoint) (added Endpoint, err error) {
	_, err = s.pool.Exec(ctx, `
		INSERT INTO webhook_endpoints (id, owner_id, url, secret, topics) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		e.ID, e.Owner, e.URL, e.Secret, append([]string{}, e.Topics...))
	if err != nil {
		return Endpoint{}, translate("add the webhook endpoint", err)
	}
	return s.Endpoint(ctx, e.ID)
}

// Endpoint returns the endpoint. It fails with [onejob.ErrNotFound].
func (s *Store) Endpoint(ctx context.Context, id string) (Endpoint, error) {
	if uuid.Validate(id) != nil {
		return Endpoint{}, noSuchEndpoint(pgx.ErrNoRows, id)
	}
	rows, err := s.pool.Query(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoints WHERE id = $1`, id)
	if err != nil {
		return Endpoint{}, translate("read the webhook endpoint", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEndpoint)
	return e, translate("read the webhook endpoint", noSuchEndpoint(err, id))
}

func noSuchEndpoint(err error, id string) error {
	return orNotFound(err, "webhook endpoint %q does not exist: see 'onejob webhook list'", onejob.Shorten(id, 100))
}

// EndpointFilter says which endpoints are listed. An empty field takes all.
type EndpointFilter struct {
	Owner string
	After string // the page after the one that ended with this endpoint
	Limit int    // endpoints at most
}

// Endpoints returns endpoints in the order of their ids.
func (s *Store) Endpoints(ctx context.Context, f EndpointFilter) ([]Endpoint, error) {
	var c conditions
	c.equal("owner_id", f.Owner)
	if f.After != "" {
		c.add("id > $%d::uuid", f.After)
	}
	where, args := c.where()
	rows, err := s.pool.Query(ctx, `SELECT `+endpointColumns+` FROM webhook_endpoints`+where+fmt.Sprintf(" ORDER BY webhook_endpoints.id LIMIT %d", f.Limit), args...)
	if err != nil {
		return nil, translate("list the webhook endpoints", err)
	}
	endpoints, err := pgx.CollectRows(rows, scanEndpoint)
	return endpoints, translate("list the webhook endpoints", err)
}

// DisableEndpointIfEnabled disables the endpoint for the reason; what is still to be delivered
// to it is dead. One that is disabled keeps its first reason. It fails with [onejob.ErrNotFound].
func (s *Store) DisableEndpointIfEnabled(ctx context.Context, id, reason string) (Endpoint, error) {
	if uuid.Validate(id) != nil {
		return Endpoint{}, noSuchEndpoint(pgx.ErrNoRows, id)
	}
	_, err := s.pool.Exec(ctx, `
		WITH disabled AS (
			UPDATE webhook_endpoints SET state = 'disabled', disabled_reason = $2 WHERE id = $1 AND state = 'enabled' RETURNING id
		)
		UPDATE webhook_deliveries d SET state = 'dead', last_error = $3
		FROM disabled WHERE d.endpoint_id = disabled.id AND d.state = 'pending'`, id, reason, endpointIsDisabled)
	if err != nil {
		return Endpoint{}, translate("disable the webhook endpoint", err)
	}
	return s.Endpoint(ctx, id)
}

// endpointIsDisabled is why a delivery to a disabled endpoint is dead.
const endpointIsDisabled = "its endpoint is disabled"
