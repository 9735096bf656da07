package simulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/simulator"
)

// outcome is what a look-up says.
type outcome struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result"`
	Usage  json.RawMessage `json:"usage"`
	Error  json.RawMessage `json:"error"`
}

// send sends a request without a body; headers alternate names and values.
func (r *rig) send(method, path string, headers ...string) (answer, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, nil)
	if err != nil {
		return answer{}, err
	}
	for n := 0; n < len(headers); n += 2 {
		req.Header.Set(headers[n], headers[n+1])
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

func (r *rig) mustSend(method, path string, headers ...string) answer {
	r.t.Helper()
	got, err := r.send(method, path, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// mustLookUp looks a call up below /v1/run; a status other than 200 is the outcome's.
func (r *rig) mustLookUp(path string, headers ...string) (o outcome) {
	r.t.Helper()
	got := r.mustSend(http.MethodGet, "/v1/run"+path, headers...)
	if got.status != http.StatusOK {
		return outcome{Status: http.StatusText(got.status)}
	}
	if err := json.Unmarshal([]byte(got.body), &o); err != nil {
		r.t.Fatalf("%v: %s", err, got.body)
	}
	return o
}

func (r *rig) mustSee(want string, path string, headers ...string) {
	r.t.Helper()
	if got := r.mustLookUp(path, headers...); got.Status != want {
		r.t.Errorf("%s: %q, want %q", path, got.Status, want)
	}
}

// mustAccept sends a call that is accepted, and returns its reference.
func (r *rig) mustAccept(q request) string {
	r.t.Helper()
	got := r.mustDo(q)
	var o outcome
	if err := json.Unmarshal([]byte(got.body), &o); err != nil || got.status != http.StatusAccepted || o.ID == "" {
		r.t.Fatalf("%+v, error %v", got, err)
	}
	if location := got.header.Get("Location"); location != r.url+"/v1/run"+q.path+"/ref/"+o.ID {
		r.t.Errorf("Location %q", location)
	}
	return o.ID
}

func TestAcceptedCallRunsUntilReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	id := r.mustAccept(request{job: "j", attempt: 1, path: "/primary", body: simulate(`{"accept":true,"run_until":"gate","answer":7}`)})
	r.mustSee("queued", "/primary/ref/"+id)
	r.mustSee("running", "/primary/ref/"+id)
	r.mustCount(simulator.Subject{Job: "j"}, 1, 0)
	r.mustRelease("gate")
	r.mustAwaitExecution("j")
	got := r.mustLookUp("/primary/ref/" + id)
	if got.ID != id || got.Status != "succeeded" || !strings.Contains(string(got.Result), `"answer":7`) || !strings.Contains(string(got.Usage), "input_tokens") {
		t.Errorf("%+v", got)
	}
}

func TestReferenceMayStandInLocationOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got := r.mustDo(request{job: "j", attempt: 1, path: "/primary", body: simulate(`{"accept":true,"location_only":true,"run_until":"gate"}`)})
	location, ok := strings.CutPrefix(got.header.Get("Location"), r.url)
	if !ok || got.status != http.StatusAccepted || strings.Contains(got.body, `"id":"run`) {
		t.Fatalf("%+v", got)
	}
	if seen := r.mustSend(http.MethodGet, location); seen.status != http.StatusOK || !strings.Contains(seen.body, "queued") {
		t.Errorf("%+v", seen)
	}
}

func TestCallThatLostItsReplyIsFoundByOurReference(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for job, directives := range map[string]string{
		"dropped": `{"execute_then_drop":true}`, "cut": `{"cut_body":true}`, "silent": `{"silence":true}`, "broken": `{"status":500}`,
	} {
		r.start(t.Context(), request{job: job, attempt: 2, key: "key of " + job, path: "/primary", body: simulate(directives)})
		r.mustAwaitExecution(job)
		r.mustSee("succeeded", "/primary/key/key%20of%20"+job)
		r.mustSee("succeeded", "/primary/job/"+job+"/attempt/2")
		r.mustSee("succeeded", "/primary/ref", "Idempotency-Key", "key of "+job)
		r.mustSee("succeeded", "/primary/ref", "Onejob-Job", job, "Onejob-Attempt", "2")
		r.mustSee("succeeded", "/primary/ref?job="+job+"&attempt=2")
		r.mustSee("Not Found", "/primary/job/"+job+"/attempt/1")
		r.mustSee("Not Found", "/other/job/"+job+"/attempt/2")
	}
}

func TestLookUpTellsTheBodyOfTheReply(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got := r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"answer":[1]}`)})
	if seen := r.mustLookUp("/job/j/attempt/1"); string(seen.Result) != got.body {
		t.Errorf("%s\n%s", seen.Result, got.body)
	}
}

func TestCallThatHadNoEffectIsNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	r.mustDo(request{job: "refused", attempt: 1, body: simulate(`{"status":503}`)})
	r.mustSee("Not Found", "/job/refused/attempt/1")

	r.start(t.Context(), request{job: "held", attempt: 1, body: simulate(`{"hold":"gate"}`)})
	r.mustAwaitRequest("held")
	r.mustDo(request{job: "held", attempt: 1, body: simulate(`{"status":503}`)})
	if got := r.mustLookUp("/job/held/attempt/1").Status; got != "queued" {
		t.Errorf("the refused call hides the held one: %q", got)
	}
	r.mustRelease("gate")
}

func TestOutcomeIsWhatTheDirectiveSays(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"accept":true,"outcome":"failed","error":{"code":"no_paper"}}`)})
	r.mustAwaitExecution("j")
	if got := r.mustLookUp("/job/j/attempt/1"); got.Status != "failed" || string(got.Error) != `{"code":"no_paper"}` || got.Result != nil {
		t.Errorf("%+v", got)
	}
	r.mustDo(request{job: "k", attempt: 1, body: simulate(`{"outcome":"cancelled"}`)})
	r.mustSee("cancelled", "/job/k/attempt/1")
}

func TestLookUpForgetsThenBreaksThenTells(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"look_up":{"forget":2,"broken":1,"status":429,"retry_after":7}}`)})
	r.mustSee("Not Found", "/job/j/attempt/1")
	r.mustSee("Not Found", "/job/j/attempt/1")
	if got := r.mustSend(http.MethodGet, "/v1/run/job/j/attempt/1"); got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "7" {
		t.Errorf("%+v", got)
	}
	r.mustSee("succeeded", "/job/j/attempt/1")
	counts, err := r.Executions(t.Context(), simulator.Subject{Job: "j", Attempt: 1})
	if err != nil || counts.LookUps != 4 {
		t.Errorf("%+v, error %v", counts, err)
	}
}

func TestLookUpIsSpoiledInEachWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for job, c := range map[string]struct {
		lookUp string
		status int
		body   string
		cut    bool
	}{
		"forgotten": {`{"forget":-1}`, 404, "no such call", false},
		"plain":     {`{"broken":-1}`, 500, "simulated", false},
		"garbage":   {`{"broken":-1,"body":"<html>"}`, 200, "<html>", false},
		"cut":       {`{"broken":-1,"cut_body":true}`, 200, `{"id":"run_`, true},
	} {
		r.mustDo(request{job: job, attempt: 1, body: simulate(`{"look_up":` + c.lookUp + `}`)})
		for range 2 {
			got, err := r.send(http.MethodGet, "/v1/run/job/"+job+"/attempt/1")
			if got.status != c.status || !strings.Contains(got.body, c.body) || (err != nil) != c.cut {
				t.Errorf("%s: %+v, error %v", job, got, err)
			}
		}
	}
}

func TestCancelIsAgreedToUntilTheCallIsDone(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	id := r.mustAccept(request{job: "j", attempt: 1, body: simulate(`{"accept":true,"run_until":"gate"}`)})
	if got := r.mustSend(http.MethodPost, "/v1/run/ref/"+id+"/cancel"); got.status != http.StatusOK || !strings.Contains(got.body, `"cancelled"`) {
		t.Errorf("%+v", got)
	}
	r.mustRelease("gate")
	r.mustSee("cancelled", "/ref/"+id)
	r.mustCount(simulator.Subject{Job: "j"}, 1, 0)

	r.mustDo(request{job: "done", attempt: 1, body: `{}`})
	got := r.mustSend(http.MethodPost, "/v1/run/job/done/attempt/1/cancel")
	if got.status != http.StatusConflict || !strings.Contains(got.body, `"succeeded"`) {
		t.Errorf("%+v", got)
	}
	counts, err := r.AwaitCancel(t.Context(), simulator.Subject{Job: "done"}, 1)
	if err != nil || counts.Cancels != 1 {
		t.Errorf("%+v, error %v", counts, err)
	}
}

func TestCancelledCallIsNotExecuted(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	answers := r.start(t.Context(), request{job: "j", attempt: 1, key: "k", body: simulate(`{"hold":"gate"}`)})
	r.mustAwaitRequest("j")
	if got := r.mustSend(http.MethodPost, "/v1/run/key/k/cancel"); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	if got, ok := <-answers; ok {
		t.Errorf("answered %+v", got)
	}
	r.mustCount(simulator.Subject{Job: "j"}, 1, 0)
	r.mustSee("cancelled", "/key/k")
}

func TestCancelMayBeAnsweredWithAnyStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"accept":true,"run_until":"gate","cancel":{"status":502}}`)})
	if got := r.mustSend(http.MethodPost, "/v1/run/job/j/attempt/1/cancel"); got.status != http.StatusBadGateway {
		t.Errorf("%+v", got)
	}
	r.mustRelease("gate")
	r.mustAwaitExecution("j")
}
