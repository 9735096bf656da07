package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func (d *Door) addWebhooks() {
	add(d, route{
		method: http.MethodPost, path: "/v1/webhooks", id: "add-webhook", tag: "Webhooks", summary: "Add an endpoint", status: http.StatusCreated, also: http.StatusOK,
		description: "The secret that signs what the endpoint is told is in this answer, and in the answer to the same request under the same key; nowhere else.",
		keyed:       keyRequired, body: newEndpoint{}, example: map[string]any{"url": "https://acme.example/hook", "topics": []string{"job.succeeded"}},
	}, d.addEndpoint)
	add(d, route{method: http.MethodGet, path: "/v1/webhooks", id: "list-webhooks", tag: "Webhooks", summary: "List endpoints", description: "In the order of their ids, the removed ones among them."}, d.listEndpoints)
	add(d, route{method: http.MethodGet, path: "/v1/webhooks/{endpoint}", id: "get-webhook", tag: "Webhooks", summary: "Read an endpoint", problems: []ProblemType{notFound}}, d.getEndpoint)
	add(d, route{
		method: http.MethodDelete, path: "/v1/webhooks/{endpoint}", id: "remove-webhook", tag: "Webhooks", summary: "Remove an endpoint",
		description: "It is told nothing more; it stays, disabled, with its history.", problems: []ProblemType{notFound},
	}, d.removeEndpoint)
	add(d, route{
		method: http.MethodPost, path: "/v1/webhooks/{endpoint}/test", id: "test-webhook", tag: "Webhooks", summary: "Send an endpoint a test",
		description: "A signed `webhook.ping`, now and once.", problems: []ProblemType{notFound, receiverFailed},
	}, d.testEndpoint)
	add(d, route{
		method: http.MethodGet, path: "/v1/webhooks/deliveries", id: "list-deliveries", tag: "Webhooks", summary: "List deliveries",
		description: "What was told and what is to be told, the newest first. " +
			"One page looks through 5000 deliveries at most: with a filter it may hold fewer than `limit`, none even, and have a next one.",
	}, d.listDeliveries)
	add(d, route{
		method: http.MethodPost, path: "/v1/webhooks/deliveries/{delivery}/redeliver", id: "redeliver", tag: "Webhooks", summary: "Send a delivery again",
		description: "Whatever became of it; its tries are counted anew.", status: http.StatusAccepted, problems: []ProblemType{notFound, nothingToResolve},
	}, d.redeliver)
}

type newEndpoint struct {
	URL    string   `json:"url" format:"uri" example:"https://acme.example/hook"`
	Topics []string `json:"topics,omitempty" doc:"Of job.succeeded, job.failed and job.cancelled. Default: all."`
}

type endpointWithSecret struct {
	postgres.Endpoint
	Secret string `json:"secret" doc:"Of Standard Webhooks: keep it."`
}

type addEndpointOutput struct {
	Status   int
	Location string `header:"Location"`
	Replayed string `header:"Idempotency-Replayed" doc:"true: the same endpoint was there before."`
	Body     endpointWithSecret
}

// addEndpoint adds the endpoint under an id that follows from owner and key: whoever sends it
// again gets the row that is there.
func (d *Door) addEndpoint(ctx context.Context, _ *struct{}) (*addEndpointOutput, error) {
	x := exchangeOf(ctx)
	key, err := idempotencyKey(x.request.Header)
	if err != nil {
		return nil, err
	}
	var asked newEndpoint
	if err := decode(x, &asked); err != nil {
		return nil, err
	}
	endpoint, err := d.options.Webhooks.NewEndpoint(x.principal.Owner, asked.URL, asked.Topics)
	if err != nil {
		return nil, err
	}
	endpoint.ID = endpointID(endpoint.Owner, key)
	added, err := d.options.Store.AddEndpointOnce(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	if added.Owner != endpoint.Owner || added.URL != endpoint.URL || !slices.Equal(added.Topics, append([]string{}, endpoint.Topics...)) {
		return nil, onejob.Errorf(onejob.CodeConflict, "key %q belongs to endpoint %s, which is another: use a new key for a new endpoint", key, added.ID)
	}
	out := &addEndpointOutput{Status: http.StatusCreated, Location: "/v1/webhooks/" + added.ID, Body: endpointWithSecret{added, added.Secret}}
	if added.Secret != endpoint.Secret {
		out.Status, out.Replayed = http.StatusOK, "true"
	}
	return out, nil
}

// endpointID is the id of the endpoint that the owner's key names.
func endpointID(owner, key string) string {
	return uuid.NewHash(sha256.New(), uuid.NameSpaceURL, []byte(onejob.EntrySource("onejob:webhook", owner, key)), 8).String()
}

type endpointInput struct {
	Endpoint string `path:"endpoint" doc:"The endpoint's id."`
}

type endpointOutput struct{ Body postgres.Endpoint }

// endpoint returns the endpoint if the principal may use it so; another owner's is not found.
func (d *Door) endpoint(ctx context.Context, id string, may func(Principal, string) bool) (postgres.Endpoint, error) {
	e, err := d.options.Store.Endpoint(ctx, id)
	if errors.Is(err, onejob.ErrNotFound) || err == nil && !may(principalOf(ctx), e.Owner) {
		return e, onejob.Errorf(onejob.CodeNotFound, "webhook endpoint %q does not exist: check the id", onejob.Shorten(id, 100))
	}
	return e, err
}

func (d *Door) getEndpoint(ctx context.Context, in *endpointInput) (*endpointOutput, error) {
	e, err := d.endpoint(ctx, in.Endpoint, Principal.mayRead)
	return &endpointOutput{e}, err
}

type endpointsInput struct {
	Owner  string `query:"owner" doc:"Whose; for operators. Default: the token's."`
	Cursor string `query:"cursor" doc:"The member next of the page before."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type endpointPage struct {
	Endpoints []postgres.Endpoint `json:"endpoints"`
	Next      string              `json:"next,omitempty" doc:"The cursor of the next page; absent: there is none."`
}

type endpointsOutput struct{ Body endpointPage }

func (d *Door) listEndpoints(ctx context.Context, in *endpointsInput) (*endpointsOutput, error) {
	owner, err := ownerToRead(principalOf(ctx), in.Owner)
	if err != nil {
		return nil, err
	}
	if in.Cursor != "" && uuid.Validate(in.Cursor) != nil {
		return nil, newProblem(invalidRequest, "cursor %q is none: use the member next of the page before", onejob.Shorten(in.Cursor, 60))
	}
	endpoints, err := d.options.Store.Endpoints(ctx, postgres.EndpointFilter{Owner: owner, After: in.Cursor, Limit: in.Limit + 1})
	out := &endpointsOutput{endpointPage{Endpoints: append([]postgres.Endpoint{}, endpoints...)}}
	if len(endpoints) > in.Limit {
		out.Body.Endpoints = out.Body.Endpoints[:in.Limit]
		out.Body.Next = endpoints[in.Limit-1].ID
	}
	return out, err
}

func (d *Door) removeEndpoint(ctx context.Context, in *endpointInput) (*endpointOutput, error) {
	e, err := d.endpoint(ctx, in.Endpoint, Principal.mayChange)
	if err != nil {
		return nil, err
	}
	e, err = d.options.Store.DisableEndpointIfEnabled(ctx, e.ID, "removed by "+principalOf(ctx).By)
	return &endpointOutput{e}, err
}

type pinged struct {
	EndpointID string `json:"endpoint_id"`
	Status     int    `json:"status" doc:"What the receiver answered."`
}

type pingedOutput struct{ Body pinged }

func (d *Door) testEndpoint(ctx context.Context, in *endpointInput) (*pingedOutput, error) {
	e, err := d.endpoint(ctx, in.Endpoint, Principal.mayChange)
	if err != nil {
		return nil, err
	}
	status, err := d.sender.Ping(ctx, e, uuid.NewString(), time.Now())
	if err != nil {
		return nil, newProblem(receiverFailed, "%s", onejob.Shorten(err.Error(), 500))
	}
	return &pingedOutput{pinged{e.ID, status}}, nil
}

type deliveriesInput struct {
	Owner    string `query:"owner" doc:"Whose; for operators. Default: the token's."`
	Endpoint string `query:"endpoint" doc:"Only to this endpoint."`
	State    string `query:"state" enum:"pending,done,dead"`
	Cursor   int64  `query:"cursor" minimum:"1" doc:"The member next of the page before."`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type deliveryPage struct {
	Deliveries []postgres.Delivery `json:"deliveries"`
	Next       string              `json:"next,omitempty" doc:"The cursor of the next page; absent: there is none."`
}

type deliveriesOutput struct{ Body deliveryPage }

func (d *Door) listDeliveries(ctx context.Context, in *deliveriesInput) (*deliveriesOutput, error) {
	owner, err := ownerToRead(principalOf(ctx), in.Owner)
	if err != nil {
		return nil, err
	}
	if in.Endpoint != "" && uuid.Validate(in.Endpoint) != nil {
		return nil, newProblem(invalidRequest, "endpoint %q is no id of one", onejob.Shorten(in.Endpoint, 60))
	}
	page, err := d.options.Store.DeliveriesPage(ctx, postgres.DeliveryFilter{
		Owner: owner, EndpointID: in.Endpoint, State: postgres.DeliveryState(in.State), Before: in.Cursor, Limit: in.Limit,
	})
	out := &deliveriesOutput{deliveryPage{Deliveries: append([]postgres.Delivery{}, page.Deliveries...)}}
	if page.Next > 0 {
		out.Body.Next = strconv.FormatInt(page.Next, 10)
	}
	return out, err
}

type deliveryInput struct {
	Delivery int64 `path:"delivery" minimum:"1" doc:"The delivery's number."`
}

type deliveryOutput struct{ Body postgres.Delivery }

func (d *Door) redeliver(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	noSuch := onejob.Errorf(onejob.CodeNotFound, "webhook delivery %d does not exist: /v1/webhooks/deliveries lists them", in.Delivery)
	there, err := d.options.Store.Delivery(ctx, in.Delivery)
	if errors.Is(err, onejob.ErrNotFound) || err == nil && !principalOf(ctx).mayChange(there.Owner) {
		return nil, noSuch
	}
	if err != nil {
		return nil, err
	}
	again, err := d.options.Store.RedeliverIfEndpointEnabled(ctx, in.Delivery)
	return &deliveryOutput{again}, err
}
