package api_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/postgres"
)

func TestSecondSubmitReturnsFirstJob(t *testing.T) {
	r := newRig(t)
	first := r.do(r.submit("parcel-1", ticket))
	if first.status != http.StatusCreated || first.header.Get("Idempotency-Replayed") != "" || first.field(t, "created") != true {
		t.Fatalf("the first got %d %s", first.status, first.body)
	}
	id := first.field(t, "job_id").(string)
	if first.header.Get("Location") != "/v1/jobs/"+id || first.field(t, "workflow_id") != onejob.WorkflowID(r.owner, "parcel-1") {
		t.Errorf("the first got %v %s", first.header, first.body)
	}
	for name, c := range map[string]call{
		"the same":          r.submit("parcel-1", ticket),
		"in quotes":         r.submit(`"parcel-1"`, ticket),
		"in other words":    r.submit("parcel-1", `{"input":{"text":"h\u0065llo"},"provider":"primary","kind":"ticket"}`),
		"with other labels": r.submit("parcel-1", `{"kind": "ticket", "provider": "primary", "input": {"text": "hello"}, "labels": {"a": "b"}, "timeout": "20s"}`),
	} {
		again := r.do(c)
		if again.status != http.StatusOK || again.header.Get("Idempotency-Replayed") != "true" || again.field(t, "job_id") != id || again.field(t, "created") != false {
			t.Errorf("%s got %d %v %s", name, again.status, again.header, again.body)
		}
	}
	for name, body := range map[string]string{
		"another input":    `{"kind": "ticket", "provider": "primary", "input": {"text": "bye"}}`,
		"another provider": `{"kind": "ticket", "provider": "fallback", "input": {"text": "hello"}}`,
		"a fallback":       `{"kind": "ticket", "provider": "primary", "fallbacks": ["fallback"], "input": {"text": "hello"}}`,
	} {
		if got := r.do(r.submit("parcel-1", body)); got.status != http.StatusConflict || got.problem() != "idempotency-conflict" {
			t.Errorf("%s got %d %s", name, got.status, got.body)
		}
	}
	other := r.mustToken("another-"+r.owner, onejob.RoleUser)
	c := r.submit("parcel-1", ticket)
	c.token = other
	if got := r.do(c); got.status != http.StatusCreated || got.field(t, "job_id") == id {
		t.Errorf("another owner's key got %d %s", got.status, got.body)
	}
}

func TestRefusedSubmitBurnsNoKey(t *testing.T) {
	r := newRig(t)
	for name, c := range map[string]struct {
		body, problem string
		status        int
	}{
		"an unknown kind":      {`{"kind": "none", "provider": "primary", "input": 1}`, "invalid-request", 400},
		"an unknown provider":  {`{"kind": "ticket", "provider": "none", "input": 1}`, "invalid-request", 400},
		"an unknown member":    {`{"kind": "ticket", "provider": "primary", "input": 1, "prioritiy": 1}`, "invalid-request", 400},
		"an owner in the body": {`{"kind": "ticket", "provider": "primary", "input": 1, "owner": "acme"}`, "invalid-request", 400},
		"a key in the body":    {`{"kind": "ticket", "provider": "primary", "input": 1, "key": "k"}`, "invalid-request", 400},
		"a member twice":       {`{"kind": "ticket", "kind": "ticket", "provider": "primary", "input": 1}`, "invalid-request", 400},
		"no input":             {`{"kind": "ticket", "provider": "primary"}`, "invalid-request", 400},
		"half an object":       {`{"kind": "ticket"`, "invalid-request", 400},
		"an array":             {`[]`, "invalid-request", 400},
		"two objects":          {ticket + ticket, "invalid-request", 400},
		"time without a unit":  {`{"kind": "ticket", "provider": "primary", "input": 1, "timeout": "10"}`, "invalid-request", 400},
	} {
		if got := r.do(r.submit("k", c.body)); got.status != c.status || got.problem() != c.problem {
			t.Errorf("%s got %d %s", name, got.status, got.body)
		}
	}
	r.mustSubmit("k", ticket)
}

// TestOverBudgetIsToldAndBurnsNoKey: with the same key it is a job once the budget allows it.
func TestOverBudgetIsToldAndBurnsNoKey(t *testing.T) {
	r := newRig(t)
	zero, err := onejob.ParseAmount("0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.ImportPrices(t.Context(), "ana", []onejob.Price{{Provider: "primary", Unit: "call", Price: mustAmount(t, "1"), Currency: "USD"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: r.owner, Limit: &zero, Currency: "USD"}); err != nil {
		t.Fatal(err)
	}
	if got := r.do(r.submit("k", ticket)); got.status != http.StatusPaymentRequired || got.problem() != "budget-exceeded" {
		t.Errorf("over budget got %d %s", got.status, got.body)
	}
	if _, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: r.owner}); err != nil {
		t.Fatal(err)
	}
	r.mustSubmit("k", ticket)
}

func mustAmount(t *testing.T, text string) onejob.Amount {
	t.Helper()
	a, err := onejob.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestInstancesAgreeAboutOneKeyAtOneMoment: each key is sent to both at once, half of the times
// with two intents.
func TestInstancesAgreeAboutOneKeyAtOneMoment(t *testing.T) {
	r := newRig(t)
	doors := []*door{r.door, r.open()}
	const keys = 20
	for k := range keys {
		var answers [2]answer
		var begin, sending sync.WaitGroup
		begin.Add(1)
		for i := range answers {
			body := ticket
			if k%2 == 1 {
				body = fmt.Sprintf(`{"kind": "ticket", "provider": "primary", "input": %d}`, i)
			}
			sending.Go(func() {
				begin.Wait()
				answers[i] = r.doAt(doors[i], r.submit(fmt.Sprintf("key-%d", k), body))
			})
		}
		begin.Done()
		sending.Wait()
		created, second := answers[0], answers[1]
		if created.status != http.StatusCreated {
			created, second = second, created
		}
		want := http.StatusOK
		if k%2 == 1 {
			want = http.StatusConflict
		}
		if created.status != http.StatusCreated || second.status != want || want == http.StatusOK && created.field(t, "job_id") != second.field(t, "job_id") {
			t.Errorf("key %d got %d %s and %d %s", k, created.status, created.body, second.status, second.body)
		}
	}
	if jobs, err := r.store.Jobs(t.Context(), postgres.Filter{Owner: r.owner}); err != nil || len(jobs) != keys {
		t.Errorf("%d jobs of %d keys, %v", len(jobs), keys, err)
	}
}

func TestJobIsAcceptedWhileTemporalIsDown(t *testing.T) {
	t.Parallel()
	r := newRigOn(t, nowhere)
	first := r.do(r.submit("k", ticket))
	if first.status != http.StatusCreated || first.field(t, "launched") != false || first.field(t, "status") != "accepted" {
		t.Errorf("the submit got %d %s", first.status, first.body)
	}
	if again := r.do(r.submit("k", ticket)); again.status != http.StatusOK || again.field(t, "job_id") != first.field(t, "job_id") {
		t.Errorf("the second submit got %d %s", again.status, again.body)
	}
	ready := r.do(call{method: http.MethodGet, path: "/readyz"})
	if ready.status != http.StatusOK || ready.field(t, "ready") != true || ready.field(t, "temporal") != "unreachable" || ready.field(t, "postgres") != "ok" {
		t.Errorf("readiness is %d %s", ready.status, ready.body)
	}
	if got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + first.field(t, "job_id").(string) + "/cancel", token: r.token}); got.status != http.StatusOK || got.field(t, "status") != "cancelled" {
		t.Errorf("the cancel got %d %s", got.status, got.body)
	}
}

func TestDoorIsNotReadyWithoutPostgres(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Store.Close()
	})
	if ready := r.do(call{method: http.MethodGet, path: "/readyz"}); ready.status != http.StatusServiceUnavailable || ready.field(t, "ready") != false {
		t.Errorf("readiness is %d %s", ready.status, ready.body)
	}
	if got := r.do(r.submit("k", ticket)); got.status < 500 || got.problem() == "" || got.status == 501 {
		t.Errorf("a submit got %d %s", got.status, got.body)
	}
	if alive := r.do(call{method: http.MethodGet, path: "/healthz"}); alive.status != http.StatusOK {
		t.Errorf("liveness is %d", alive.status)
	}
}
