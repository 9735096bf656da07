package simulator_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onejob/onejob/simulator"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a simulator under test with a provider's client and a control client.
type rig struct {
	*simulator.Client
	t    *testing.T
	url  string
	http *http.Client
}

func newRig(t *testing.T, o simulator.Options) *rig {
	t.Helper()
	sim := simulator.New(o)
	server := httptest.NewServer(sim)
	r := &rig{Client: simulator.NewClient(server.URL), t: t, url: server.URL, http: server.Client()}
	t.Cleanup(func() {
		sim.Reset() // lets go of what a test left held
		server.Close()
		r.Close()
	})
	return r
}

// request is one call of a job's attempt.
type request struct {
	job     string
	attempt int
	key     string
	body    string
	path    string // behind /v1/run

	callback string // URL
}

// simulate returns an input with the directives.
func simulate(directives string) string { return `{"text":"hello","simulate":` + directives + `}` }

// answer is what a provider's client reads.
type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) do(ctx context.Context, q request) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/run"+q.path, strings.NewReader(q.body))
	if err != nil {
		r.t.Error(err)
		return answer{}, err
	}
	req.GetBody = nil // a lost reply shall not be repeated under us
	req.Header.Set("Onejob-Job", q.job)
	req.Header.Set("Onejob-Attempt", strconv.Itoa(q.attempt))
	if q.key != "" {
		req.Header.Set("Idempotency-Key", q.key)
	}
	if q.callback != "" {
		req.Header.Set("Onejob-Callback", q.callback)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}, err
}

func (r *rig) mustDo(q request) answer {
	r.t.Helper()
	a, err := r.do(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// start sends a request beside the test; the channel gets its answer, or is closed
// without one if the connection was.
func (r *rig) start(ctx context.Context, q request) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		defer close(answers)
		if a, err := r.do(ctx, q); err == nil {
			answers <- a
		}
	}()
	return answers
}

func (r *rig) mustCount(s simulator.Subject, requests, executions int) {
	r.t.Helper()
	counts, err := r.Executions(r.t.Context(), s)
	if err != nil {
		r.t.Fatal(err)
	}
	if counts.Requests != requests || counts.Executions != executions {
		r.t.Errorf("%+v: %+v, want %d requests and %d executions", s, counts, requests, executions)
	}
}

func (r *rig) mustAwaitRequest(job string) simulator.Counts {
	r.t.Helper()
	counts, err := r.AwaitRequest(r.t.Context(), simulator.Subject{Job: job}, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	return counts
}

func (r *rig) mustAwaitExecution(job string) {
	r.t.Helper()
	if _, err := r.AwaitExecution(r.t.Context(), simulator.Subject{Job: job}, 1); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) mustRelease(name string) {
	r.t.Helper()
	if _, err := r.Release(r.t.Context(), name); err != nil {
		r.t.Fatal(err)
	}
}

func mustContain(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s\nlacks %s", text, part)
	}
}

func TestReplyNamesWhatWasAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got := r.mustDo(request{job: "j", attempt: 2, body: `{}`, path: "/claude"})
	const want = `{"provider":"claude","job":"j","attempt":2,"echo":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","answer":"done","usage":{"input_tokens":1,"output_tokens":16}}`
	if got.status != http.StatusOK || got.body != want {
		t.Errorf("status %d\n%s\n%s", got.status, got.body, want)
	}
}

func TestDirectivesShapeTheReply(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for name, c := range map[string]struct {
		directives string
		status     int
		contains   string
		retryAfter string
		executions int
	}{
		"answer and usage":  {`{"answer":[1],"usage":null}`, 200, `"answer":[1]}`, "", 1},
		"refusal":           {`{"status":503,"retry_after":7}`, 503, `"error":{"code":503`, "7", 0},
		"refusal by date":   {`{"status":429,"retry_after":"soon"}`, 429, `"error"`, "soon", 0},
		"billed refusal":    {`{"status":429,"execute":true,"usage":{"input_tokens":1}}`, 429, `"usage":{"input_tokens":1}`, "", 1},
		"broken after work": {`{"status":500}`, 500, `"error"`, "", 1},
		"rejected":          {`{"status":400}`, 400, `"error"`, "", 0},
		"redirect":          {`{"status":304}`, 304, ``, "", 0},
		"raw":               {`{"status":202,"headers":{"Retry-After":"x"},"body":"<html>"}`, 202, `<html>`, "x", 1},
	} {
		got := r.mustDo(request{job: name, attempt: 1, body: simulate(c.directives)})
		if got.status != c.status || !strings.Contains(got.body, c.contains) || got.header.Get("Retry-After") != c.retryAfter {
			t.Errorf("%s: %+v", name, got)
		}
		r.mustCount(simulator.Subject{Job: name}, 1, c.executions)
	}
}

func TestUnreadableInputIsNotCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for _, body := range []string{
		`{`, simulate(`{"sillence":true}`), simulate(`{"status":99}`), simulate(`{"late":"-1s"}`), simulate(`{"latency":3}`),
		simulate(`{"cut_stream":-1}`), simulate(`{"outcome":"running"}`), simulate(`{"look_up":{"status":99}}`), simulate(`{"cancel":{"status":1000}}`),
		simulate(`{"callback":{"when":"never"}}`), simulate(`{"callback":{"times":11}}`), simulate(`{"callback":{"outcome":"queued"}}`),
	} {
		if got := r.mustDo(request{job: "j", attempt: 1, body: body}); got.status != http.StatusBadRequest {
			t.Errorf("%s: %+v", body, got)
		}
	}
	r.mustCount(simulator.Subject{Job: "j"}, 0, 0)
}

func TestHeldRequestIsExecutedOnceReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	answers := r.start(t.Context(), request{job: "j", attempt: 1, body: simulate(`{"hold":"gate"}`)})
	r.mustAwaitRequest("j")
	r.mustCount(simulator.Subject{Job: "j"}, 1, 0)
	r.mustRelease("gate")
	if got := <-answers; got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	r.mustCount(simulator.Subject{Job: "j"}, 1, 1)
}

func TestReleasedNameStaysOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	r.mustRelease("gate")
	r.mustDo(request{job: "j", attempt: 1, body: simulate(`{"hold":"gate"}`)})
}

func TestReplyIsHeldAfterTheExecution(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for directives, gate := range map[string]string{`{"hold_after":"gate"}`: "gate", `{"silence":true}`: "job-b"} {
		job := "job-" + map[bool]string{true: "a", false: "b"}[gate == "gate"]
		answers := r.start(t.Context(), request{job: job, attempt: 1, body: simulate(directives)})
		r.mustAwaitExecution(job)
		select {
		case got := <-answers:
			t.Errorf("%s: answered before its release: %+v", directives, got)
		default:
		}
		r.mustRelease(gate)
		if got := <-answers; got.status != http.StatusOK {
			t.Errorf("%s: %+v", directives, got)
		}
	}
}

func TestExecutedRequestLosesItsReply(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for job, directives := range map[string]string{"dropped": `{"execute_then_drop":true}`, "cut": `{"cut_body":true}`} {
		if got, err := r.do(t.Context(), request{job: job, attempt: 1, body: simulate(directives)}); err == nil {
			t.Errorf("%s: answered %+v", job, got)
		}
		r.mustCount(simulator.Subject{Job: job}, 1, 1)
	}
}

func TestCutBodyStartsLikeAWholeOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	got, err := r.do(t.Context(), request{job: "j", attempt: 1, body: simulate(`{"cut_body":true,"body":"0123456789"}`)})
	if err != io.ErrUnexpectedEOF || got.status != http.StatusOK || got.body != "01234" || got.header.Get("Content-Length") != "10" {
		t.Errorf("%+v, error %v", got, err)
	}
}

func TestRepeatedExecutionsShow(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for _, attempt := range []int{1, 2, 2} {
		r.mustDo(request{job: "j", attempt: attempt, key: "k", body: `{}`})
	}
	r.mustCount(simulator.Subject{Job: "j"}, 3, 3)
	r.mustCount(simulator.Subject{Job: "j", Attempt: 2}, 2, 2)
	r.mustCount(simulator.Subject{Key: "k"}, 3, 3)
	got, err := r.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := simulator.Totals{Counts: simulator.Counts{Requests: 3, Executions: 3}, Repeated: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHonouredKeyIsExecutedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{HonourKeys: true})
	lost := request{job: "j", attempt: 1, key: "k", body: simulate(`{"execute_then_drop":true,"answer":7}`)}
	if got, err := r.do(t.Context(), lost); err == nil {
		t.Fatalf("answered %+v", got)
	}
	got := r.mustDo(lost)
	if got.status != http.StatusOK || !strings.Contains(got.body, `"answer":7`) || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v", got)
	}
	r.mustCount(simulator.Subject{Key: "k"}, 2, 1)
	if other := r.mustDo(request{job: "j", attempt: 1, key: "k", body: `{}`}); other.status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the key: %+v", other)
	}
}

func TestKeyIsBusyWhileItsRequestIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{HonourKeys: true})
	held := request{job: "j", attempt: 1, key: "k", body: simulate(`{"hold":"gate"}`)}
	answers := r.start(t.Context(), held)
	r.mustAwaitRequest("j")
	if got := r.mustDo(held); got.status != http.StatusConflict {
		t.Errorf("%+v", got)
	}
	r.mustRelease("gate")
	<-answers
	r.mustCount(simulator.Subject{Job: "j"}, 2, 1)
}

func TestRefusedRequestLeavesItsKeyFree(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{HonourKeys: true, Plan: simulator.Plan{Status: map[int]float64{503: 1}}})
	again := request{job: "j", attempt: 1, key: "k", body: `{}`}
	if got := r.mustDo(again); got.status != http.StatusServiceUnavailable {
		t.Fatalf("%+v", got)
	}
	if err := r.SetPlan(t.Context(), simulator.Plan{}); err != nil {
		t.Fatal(err)
	}
	if got := r.mustDo(again); got.status != http.StatusOK || got.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%+v", got)
	}
}

func TestResetForgetsAndDrops(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	answers := r.start(t.Context(), request{job: "j", attempt: 1, body: simulate(`{"hold":"gate"}`)})
	r.mustAwaitRequest("j")
	if err := r.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, ok := <-answers; ok {
		t.Errorf("%+v", got)
	}
	r.mustCount(simulator.Subject{Job: "j"}, 0, 0)
}

func TestAwaitEndsWithItsTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	resp, err := r.http.Get(r.url + "/_simulator/await?job=j&requests=1&timeout=1ms")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestAwaitEndsWithAReset(t *testing.T) {
	t.Parallel()
	sim := simulator.New(simulator.Options{})
	w := httptest.NewRecorder()
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		defer close(done)
		sim.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/_simulator/await?job=j&requests=1", nil))
	}()
	for ended := false; !ended; {
		sim.Reset()
		select {
		case <-done:
			ended = true
		default:
		}
	}
	if !strings.Contains(w.Body.String(), "reset") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

func TestControlRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for _, path := range []string{
		"GET executions", "GET executions?job=j&key=k", "GET executions?job=j&attempt=x",
		"GET await?job=j", "GET await?job=j&requests=x", "GET await?job=j&requests=1&timeout=x", "POST release",
	} {
		method, path, _ := strings.Cut(path, " ")
		req, _ := http.NewRequestWithContext(t.Context(), method, r.url+"/_simulator/"+path, nil)
		resp, err := r.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
	for _, plan := range []simulator.Plan{{LostReply: 2}, {Late: -1}, {LostReply: .6, Late: .6}, {Status: map[int]float64{7: .1}}, {LateBy: -1}, {Accept: .6, Told: .6}, {LookUp: &simulator.LookUps{Status: 1}}} {
		if err := r.SetPlan(t.Context(), plan); err == nil {
			t.Errorf("plan %+v was taken", plan)
		}
	}
}

func TestDirectivesSurviveTheirJSON(t *testing.T) {
	t.Parallel()
	want := simulator.Directives{Latency: simulator.Duration(1500 * time.Millisecond), RetryAfter: "3", Status: 503}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got simulator.Directives
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", text, diff)
	}
}
