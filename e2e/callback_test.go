package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/worker"
)

// callbackSecret is what the simulated provider and "calling" share.
const callbackSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// startWorkerWithCallbacks runs a worker that providers can call back. It returns the base
// URL of the callbacks.
func (s *system) startWorkerWithCallbacks() string {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	base := "http://" + listener.Addr().String()
	w := s.newWorker(func(c *worker.Config) { c.CallbackURL = base })
	s.run(w)
	served := make(chan error, 1)
	go func() { served <- w.ServeCallbacks(s.t.Context(), listener) }()
	s.t.Cleanup(func() {
		if err := <-served; err != nil {
			s.t.Errorf("callbacks: %v", err)
		}
	})
	return base
}

// callBack sends a callback about the job's first attempt, signed by secret as of then.
func (s *system) callBack(base, jobID, id, body, secret string, at time.Time) int {
	s.t.Helper()
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		s.t.Fatal(err)
	}
	signature, err := webhook.Sign(id, at, []byte(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, base+provider.CallbackPath("calling", jobID, 1, callbackSecret), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	req.Header.Set("webhook-signature", signature)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// awaited submits a job whose provider took it and will call back, and waits until it is
// running.
func (s *system) awaited(key string) onejob.Submitted {
	s.t.Helper()
	r := s.on("calling", key, `"only": "calling", "accept": true, "run_until": "never"`)
	r.Timeout = onejob.Duration(10 * time.Second)
	job := s.submit(r)
	s.eventually("the attempt is running", func() bool { return s.firstState(job.JobID) == onejob.AttemptRunning })
	return job
}

func TestProviderThatCallsBackIsHeard(t *testing.T) {
	for name, simulate := range map[string]string{
		"after it took the call":        `"accept": true, "callback": {}`,
		"before it answers at all":      `"accept": true, "callback": {"when": "before"}`,
		"twice":                         `"accept": true, "callback": {"times": 2}`,
		"when its reply was lost":       `"execute_then_drop": true, "callback": {}`,
		"beside its answer":             `"callback": {"when": "before"}`,
		"after its own answer was late": `"late": "700ms", "callback": {"when": "before"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.startWorkerWithCallbacks()
			s.wantOneAttempt(s.submit(s.on("calling", "call", simulate)).JobID, 1)
		})
	}
}

func TestCallbackThatProvesNothingChangesNothing(t *testing.T) {
	s := newSystem(t)
	base := s.startWorkerWithCallbacks()
	job := s.awaited("forged")
	now, id := time.Now(), uuid.NewString
	const done = `{"id": "r", "status": "succeeded", "result": {"forged": true}}`
	const otherSecret = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVz"
	for _, c := range []struct {
		why, job, body, secret string
		at                     time.Time
		want                   int
	}{
		{"signed by somebody else", job.JobID, done, otherSecret, now, http.StatusUnauthorized},
		{"an old one, played again", job.JobID, done, callbackSecret, now.Add(-6 * time.Minute), http.StatusUnauthorized},
		{"one from the future", job.JobID, done, callbackSecret, now.Add(6 * time.Minute), http.StatusUnauthorized},
		{"of a job that is not there", uuid.NewString(), done, callbackSecret, now, http.StatusNotFound},
		{"no outcome", job.JobID, `{"id": "r"}`, callbackSecret, now, http.StatusBadRequest},
		{"not JSON", job.JobID, `succeeded`, callbackSecret, now, http.StatusBadRequest},
		{"a success without a result", job.JobID, `{"status": "succeeded"}`, callbackSecret, now, http.StatusBadRequest},
		{"still at it", job.JobID, `{"id": "r", "status": "running"}`, callbackSecret, now, http.StatusOK},
	} {
		if got := s.callBack(base, c.job, id(), c.body, c.secret, c.at); got != c.want {
			t.Errorf("%s: got %d, want %d", c.why, got, c.want)
		}
	}
	if state := s.firstState(job.JobID); state != onejob.AttemptRunning {
		t.Errorf("the attempt is %s", state)
	}
	unsigned, err := http.Post(base+provider.CallbackPath("calling", job.JobID, 1, callbackSecret), "application/json", bytes.NewReader([]byte(done)))
	if err != nil {
		t.Fatal(err)
	}
	defer unsigned.Body.Close()
	if unsigned.StatusCode != http.StatusBadRequest {
		t.Errorf("without a signature: got %d", unsigned.StatusCode)
	}
}

func TestCallbackIsNoWordAboutAnotherAttempt(t *testing.T) {
	s := newSystem(t)
	base := s.startWorkerWithCallbacks()
	ours, other := s.awaited("ours"), s.awaited("other")
	webhook, err := standardwebhooks.NewWebhook(callbackSecret)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"status": "succeeded", "result": "ours"}`
	id, now := uuid.NewString(), time.Now()
	signature, err := webhook.Sign(id, now, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	// The address of the other attempt, with the token that the provider was given for ours.
	misled := strings.Replace(provider.CallbackPath("calling", ours.JobID, 1, callbackSecret), ours.JobID, other.JobID, 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+misled, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {fmt.Sprint(now.Unix())}, "Webhook-Signature": {signature}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound || s.firstState(other.JobID) != onejob.AttemptRunning {
		t.Errorf("answered %d, the other attempt is %s", resp.StatusCode, s.firstState(other.JobID))
	}
}

func TestCallbackIsHeardOnce(t *testing.T) {
	s := newSystem(t)
	base := s.startWorkerWithCallbacks()
	job := s.awaited("once")
	first, now := uuid.NewString(), time.Now()
	done := func(result string) string { return `{"status": "succeeded", "result": ` + result + `}` }
	for _, c := range []struct {
		why, id, result string
		want            int
	}{
		{"the first", first, `1`, http.StatusOK},
		{"the same again", first, `1`, http.StatusOK},
		{"another, about what is over", uuid.NewString(), `2`, http.StatusGone},
	} {
		if got := s.callBack(base, job.JobID, c.id, done(c.result), callbackSecret, now); got != c.want {
			t.Errorf("%s: got %d, want %d", c.why, got, c.want)
		}
	}
	if finished := s.wait(job.JobID); string(finished.Result) != `1` || len(finished.Attempts) != 1 {
		t.Errorf("the job is %+v with result %s", finished.View, finished.Result)
	}
	if n := s.count(`SELECT count(*) FROM discarded_results WHERE job_id = $1`, job.JobID); n != 1 {
		t.Errorf("%d discarded results are logged, want that of the other callback", n)
	}
}
