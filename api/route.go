package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
)

// What an operation's metadata holds.
const (
	leastRole = "onejob.least-role" // onejob.Role
	mostBody  = "onejob.most-body"  // int; absent: it takes no body
	noBodyToo = "onejob.no-body"    // true: a request without a body has an empty object
)

// route is an operation and what it says of itself in the OpenAPI document.
type route struct {
	method, path, id, tag string
	summary, description  string
	least                 onejob.Role // default user
	status                int         // default 200
	also                  int         // another status with the same body; 0: none
	keyed                 keying
	body                  any  // a value of the body's type; nil: it takes none
	bodyless              bool // a request without a body is taken as one with an empty object
	example               any  // of the body
	most                  int  // bytes of the body; default those of a small one
	problems              []ProblemType
}

// keying says whether a route takes an idempotency key.
type keying int

const (
	keyless keying = iota
	keyOptional
	keyRequired
)

// mostSmallBody is the length of a body that holds no payload.
const mostSmallBody = 64 << 10

// add adds the route: what handle returns as an error becomes its problem.
func add[I, O any](d *Door, r route, handle func(context.Context, *I) (*O, error)) {
	huma.Register(d.api, d.operation(r), func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, problemOf(d.options.Logger, err)
		}
		return out, nil
	})
	for _, op := range operationsOf(d.api.OpenAPI().Paths[r.path]) {
		if op.OperationID == r.id {
			d.complete(op, r)
		}
	}
}

// complete adds the body to the document, and the second status. Huma is told of the body after it
// has made the handler, which would read it otherwise: readBody has done so.
func (d *Door) complete(op *huma.Operation, r route) {
	if r.body != nil {
		schema := d.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(r.body), true, "")
		op.RequestBody = &huma.RequestBody{Required: !r.bodyless, Content: map[string]*huma.MediaType{"application/json": {Schema: schema, Example: r.example}}}
	}
	if r.also != 0 {
		same := *op.Responses[fmt.Sprint(r.status)]
		same.Description = "The same again: " + http.StatusText(r.also)
		op.Responses[fmt.Sprint(r.also)] = &same
	}
}

// operation is the route in huma's words.
func (d *Door) operation(r route) huma.Operation {
	op := huma.Operation{
		Method: r.method, Path: r.path, OperationID: r.id, Tags: []string{r.tag}, Summary: r.summary, Description: r.description,
		DefaultStatus: r.status, Security: []map[string][]string{{"token": {}}}, Metadata: map[string]any{leastRole: onejob.RoleUser},
		RejectUnknownQueryParameters: true, Responses: map[string]*huma.Response{},
	}
	if r.least != "" {
		op.Metadata[leastRole] = r.least
		op.Description += fmt.Sprintf("\n\nNeeds the role `%s`.", r.least)
	}
	if r.keyed != keyless {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: wire.KeyHeader, In: "header", Required: r.keyed == keyRequired, Schema: &huma.Schema{Type: huma.TypeString}, Example: `"parcel-1"`,
			Description: "Names this one intention, the same in every retry: in double quotes (RFC 9651) or bare, which is the same key.",
		})
		r.problems = append(r.problems, keyMissing, keyInvalid, conflict)
	}
	if r.body != nil {
		op.Metadata[mostBody], op.Metadata[noBodyToo] = max(r.most, mostSmallBody), r.bodyless
		r.problems = append(r.problems, requestTimeout, tooLarge, unsupportedMedia)
	}
	d.describeProblems(&op, r.problems)
	return op
}

// describeProblems adds those of the route and those of all.
func (d *Door) describeProblems(op *huma.Operation, of []ProblemType) {
	of = append(of, invalidRequest, unauthorized, forbidden, rateLimited, internal, unavailable)
	schema := d.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	for _, t := range problemsInOrder {
		if !slices.Contains(of, t) {
			continue
		}
		status := fmt.Sprint(t.Status)
		response := op.Responses[status]
		if response == nil {
			response = &huma.Response{Description: http.StatusText(t.Status), Content: map[string]*huma.MediaType{
				"application/problem+json": {Schema: schema, Examples: map[string]*huma.Example{}},
			}}
			op.Responses[status] = response
		}
		response.Content["application/problem+json"].Examples[t.Name] = &huma.Example{
			Summary: t.Title, Value: Problem{Type: t.URI(), Title: t.Title, Status: t.Status, Detail: "one line that names the value and the remedy"},
		}
	}
}
