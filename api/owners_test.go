package api_test

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
)

// bodies are what the routes that take one are sent.
var bodies = map[string]string{
	"submit-job":      ticket,
	"start-attempt":   `{"provider": "fallback"}`,
	"cancel-attempt":  `{"reason": "curious"}`,
	"resolve-attempt": `{"as": "failed"}`,
	"cancel-job":      `{}`,
	"add-webhook":     `{"url": "http://127.0.0.1:1/hook"}`,

	"create-chat-completion": `{"model": "m-large", "messages": []}`,
	"create-message":         `{"model": "c-large", "messages": []}`,
}

// operations are those of the door's document.
func (d *door) operations() (all []*huma.Operation) {
	for _, path := range d.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Put, path.Patch, path.Delete, path.Head, path.Options, path.Trace} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	return all
}

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// call is a call of the operation with the parameters of its path.
func (r *rig) operation(op *huma.Operation, token string, parameters map[string]string) call {
	r.t.Helper()
	path := parameter.ReplaceAllStringFunc(op.Path, func(p string) string {
		value, ok := parameters[strings.Trim(p, "{}")]
		if !ok {
			r.t.Errorf("%s %s: the test knows no %s: say whose it is", op.Method, op.Path, p)
		}
		return value
	})
	body, known := bodies[op.OperationID]
	if (op.RequestBody != nil) != known {
		r.t.Errorf("%s %s: the test knows a body for it: %t", op.Method, op.Path, known)
	}
	return call{method: op.Method, path: path, token: token, key: "theirs-" + op.OperationID, body: body}
}

// TestAnotherOwnersTokenAgainstEveryRoute: of what is another's nobody learns anything. The
// routes are those of the OpenAPI document, so that a new one is asked here, too.
func TestAnotherOwnersTokenAgainstEveryRoute(t *testing.T) {
	r := newRig(t, hasty)
	job := r.mustSubmit("theirs-submit-job", ticket)
	endpoint := r.do(call{method: http.MethodPost, path: "/v1/webhooks", token: r.token, key: "theirs-add-webhook", body: bodies["add-webhook"]})
	if endpoint.status != http.StatusCreated {
		t.Fatalf("the endpoint got %d %s", endpoint.status, endpoint.body)
	}
	endpointID := endpoint.field(t, "id").(string)
	delivery := r.delivery(job, endpointID)
	theirs := map[string]string{"job": job, "attempt": "1", "endpoint": endpointID, "delivery": delivery}
	stranger := r.mustToken("stranger-"+r.owner, onejob.RoleUser)
	before := r.get("/v1/jobs/" + job)
	secrets := [][]byte{[]byte(job), []byte(endpointID), []byte(r.owner), []byte("whsec_")}
	for _, op := range r.door.operations() {
		name := op.Method + " " + op.Path
		got := r.do(r.operation(op, stranger, theirs))
		switch {
		case slices.Contains([]string{"submit-job", "add-webhook"}, op.OperationID): // a key of their own
			if got.status != http.StatusCreated {
				t.Errorf("%s got %d %s", name, got.status, got.body)
			}
			continue
		case slices.Contains(op.Tags, "Vendors"): // a job of their own, which nobody runs
			if id := got.header.Get("Onejob-Job"); got.status != http.StatusServiceUnavailable || id == "" || id == job {
				t.Errorf("%s got %d %s", name, got.status, got.body)
			}
			continue
		case op.OperationID == "resolve-attempt":
			if got.problem() != "forbidden" {
				t.Errorf("%s got %d %s", name, got.status, got.body)
			}
		case strings.Contains(op.Path, "{"):
			if got.status != http.StatusNotFound || got.problem() != "not-found" {
				t.Errorf("%s got %d %s", name, got.status, got.body)
			}
			nothing := r.do(r.operation(op, stranger, map[string]string{"job": "0199aaaa-0000-7000-8000-000000000000", "attempt": "1", "endpoint": "0199aaaa-0000-7000-8000-000000000000", "delivery": "999999"}))
			if nothing.status != got.status || nothing.problem() != got.problem() {
				t.Errorf("%s of what does not exist got %d %s, of another's %d", name, nothing.status, nothing.body, got.status)
			}
		default:
			if got.status != http.StatusOK {
				t.Errorf("%s got %d %s", name, got.status, got.body)
			}
		}
		body := got.body
		for _, mine := range theirs { // the path that was asked for may be told
			body = bytes.ReplaceAll(body, []byte(`\"`+mine+`\"`), nil)
		}
		for _, secret := range secrets {
			if bytes.Contains(bytes.ReplaceAll(body, []byte("stranger-"+r.owner), nil), secret) {
				t.Errorf("%s tells %s: %s", name, secret, got.body)
			}
		}
		if strings.Contains(op.Path, "{") {
			continue
		}
		c := r.operation(op, stranger, theirs)
		c.path += "?owner=" + r.owner
		if named := r.do(c); named.problem() != "forbidden" {
			t.Errorf("%s of the owner by name got %d %s", name, named.status, named.body)
		}
	}
	if after := r.get("/v1/jobs/" + job); !bytes.Equal(after.body, before.body) {
		t.Errorf("the job was\n%s and is\n%s", before.body, after.body)
	}
}

// hasty does not wait for the jobs of vendors' requests.
func hasty(o *api.Options) { o.VendorWait = time.Millisecond }

// delivery makes a delivery of the rig's owner to the endpoint, as a consumer would.
func (r *rig) delivery(job, endpoint string) (id string) {
	r.t.Helper()
	conn := pgtestConnect(r.t, r.url)
	if _, err := conn.Exec(r.t.Context(), `INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ('job.failed:' || $1, $2, 'job.failed', '{}')`, job, r.owner); err != nil {
		r.t.Fatal(err)
	}
	if err := conn.QueryRow(r.t.Context(), `
		INSERT INTO webhook_deliveries (message_key, owner_id, endpoint_id, url) VALUES ('job.failed:' || $1, $2, $3, 'http://127.0.0.1:1') RETURNING id::text`,
		job, r.owner, endpoint).Scan(&id); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// TestEveryRouteWantsAToken: none, a wrong one, one that has ended, one that was revoked, two.
func TestEveryRouteWantsAToken(t *testing.T) {
	r := newRig(t)
	revoked := r.mustToken(r.owner, onejob.RoleUser)
	tokens, err := r.store.Tokens(t.Context(), tokenFilter(r.owner))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.RevokeTokenIfLive(t.Context(), tokens[0].ID, "ana"); err != nil {
		t.Fatal(err)
	}
	any := map[string]string{"job": "0199aaaa-0000-7000-8000-000000000000", "attempt": "1", "endpoint": "0199aaaa-0000-7000-8000-000000000000", "delivery": "1"}
	for _, op := range r.door.operations() {
		for name, header := range map[string]map[string]string{
			"no token":        {},
			"an unknown one":  {"Authorization": "Bearer oj_" + strings.Repeat("A", 52)},
			"a revoked one":   {"Authorization": "Bearer " + revoked},
			"another scheme":  {"Authorization": "Basic " + r.token},
			"nothing behind":  {"Authorization": "Bearer "},
			"a strange token": {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
		} {
			c := r.operation(op, "", any)
			c.header = header
			if got := r.do(c); got.status != http.StatusUnauthorized || got.problem() != "unauthorized" || got.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %s got %d %s", op.Method, op.Path, name, got.status, got.body)
			}
		}
	}
	short := r.mustTokenFor(r.owner, onejob.RoleUser, api.ShortestToken)
	r.eventually("a token ends", func() bool {
		return r.do(call{method: http.MethodGet, path: "/v1/jobs", token: short}).problem() == "unauthorized"
	})
}

// TestOperatorsActOnAnyJobAndAreRecorded: by the token, not by what the request says.
func TestOperatorsActOnAnyJobAndAreRecorded(t *testing.T) {
	r := newRig(t)
	job := r.mustSubmit("k", ticket)
	operator := r.mustToken("ops", onejob.RoleOperator)
	if got := r.do(call{method: http.MethodGet, path: "/v1/jobs?owner=" + r.owner, token: operator}); got.status != http.StatusOK || !bytes.Contains(got.body, []byte(job)) {
		t.Errorf("the list got %d %s", got.status, got.body)
	}
	if got := r.do(call{method: http.MethodGet, path: "/v1/jobs", token: operator}); got.status != http.StatusOK || !bytes.Contains(got.body, []byte(job)) {
		t.Errorf("the list of all got %d %s", got.status, got.body)
	}
	got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/cancel", token: operator, body: `{"reason": "asked by phone"}`})
	if got.status != http.StatusOK || got.field(t, "status") != "cancelled" {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	var by, reason string
	if err := pgtestConnect(t, r.url).QueryRow(t.Context(), `SELECT decided_by, reason FROM decisions WHERE job_id = $1`, job).Scan(&by, &reason); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^ops \(token [0-9a-f-]{36}\)$`).MatchString(by) || reason != "asked by phone" {
		t.Errorf("decided by %q for %q", by, reason)
	}
	endpoint := r.do(call{method: http.MethodPost, path: "/v1/webhooks", token: r.token, key: "k", body: bodies["add-webhook"]}).field(t, "id").(string)
	for role, want := range map[onejob.Role]int{onejob.RoleOperator: http.StatusNotFound, onejob.RoleAdmin: http.StatusOK} {
		if got := r.do(call{method: http.MethodDelete, path: "/v1/webhooks/" + endpoint, token: r.mustToken("ops", role)}); got.status != want {
			t.Errorf("the %s's removal got %d %s", role, got.status, got.body)
		}
	}
}
