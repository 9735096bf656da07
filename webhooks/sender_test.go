package webhooks_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/webhooks"
)

// signedBy says by its own means that the secret signed what was heard, just now.
func signedBy(t *testing.T, secret string, h heard) bool {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 {
		t.Fatalf("key of %d bytes, %v", len(key), err)
	}
	seconds, err := strconv.ParseInt(h.header.Get("webhook-timestamp"), 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || age < -time.Minute || age > time.Minute {
		t.Errorf("webhook-timestamp %q is %v old, %v", h.header.Get("webhook-timestamp"), age, err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.header.Get("webhook-id") + "." + h.header.Get("webhook-timestamp") + "." + string(h.body)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return strings.Contains(" "+h.header.Get("webhook-signature")+" ", " "+want+" ")
}

func TestDeliveryIsSignedAndTheSameInEveryTry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	codes := make(chan int, 2)
	codes <- http.StatusInternalServerError
	codes <- http.StatusNoContent
	at := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-codes) })
	e, m := r.told(t, at.URL+"/hook?token=t")
	sender := r.sender(inside)
	for range 2 {
		if n := send(t, sender); n != 1 {
			t.Fatalf("%d tries", n)
		}
		r.exec(t, `UPDATE webhook_deliveries SET next_try_at = clock_timestamp() - interval '1 second'`)
	}
	all := at.heard()
	if string(all[0].body) != string(all[1].body) || !signedBy(t, e.Secret, all[0]) || !signedBy(t, e.Secret, all[1]) || signedBy(t, callbackSecret, all[0]) {
		t.Errorf("heard %q", all)
	}
	for _, h := range all {
		if h.header.Get("webhook-id") != m.Key || h.header.Get("content-type") != "application/json" {
			t.Errorf("header %v", h.header)
		}
	}
	var body struct {
		Type      string          `json:"type"`
		Timestamp time.Time       `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(all[0].body, &body); err != nil || body.Type != m.Topic || string(body.Data) != string(m.Payload) || time.Since(body.Timestamp) > time.Minute {
		t.Errorf("body %s, %v", all[0].body, err)
	}
	if d := r.delivery(t); d.State != postgres.DeliveryDone || d.Tries != 2 || d.LastStatus != 204 || d.LastError != "" || d.DoneAt.IsZero() {
		t.Errorf("%+v", d)
	}
	if n := send(t, sender); n != 0 || len(at.heard()) != 2 {
		t.Errorf("a delivery that is done was sent again")
	}
}

func TestFailedDeliveryIsTriedForThreeDaysAndThenDead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusInternalServerError))
	r.told(t, at.URL)
	sender := r.sender(inside)
	var waits time.Duration
	for r.delivery(t).State == postgres.DeliveryPending {
		if n := send(t, sender); n != 1 {
			t.Fatalf("%d tries of %+v", n, r.delivery(t))
		}
		d := r.delivery(t)
		if d.LastStatus != 500 || d.LastError != "it answered 500" {
			t.Errorf("%+v", d)
		}
		if d.State != postgres.DeliveryPending {
			break
		}
		if n := send(t, sender); n != 0 {
			t.Fatalf("it is tried again at once")
		}
		wait := time.Until(d.NextTryAt)
		if wait > 12*time.Hour || wait < 8*time.Second {
			t.Errorf("after try %d it waits %v", d.Tries, wait)
		}
		waits += wait
		r.letTimePass(t)
	}
	if waits < 60*time.Hour || waits > 84*time.Hour {
		t.Errorf("it was tried for %v", waits)
	}
	tries := len(at.heard())
	if d := r.delivery(t); d.State != postgres.DeliveryDead || d.Tries != tries {
		t.Errorf("%+v after %d tries", d, tries)
	}
	r.letTimePass(t)
	if n := send(t, sender); n != 0 {
		t.Error("a dead one was tried")
	}
	redelivered, err := r.store.RedeliverIfEndpointEnabled(t.Context(), r.delivery(t).ID)
	if err != nil || redelivered.State != postgres.DeliveryPending || redelivered.Tries != 0 {
		t.Errorf("redelivered: %+v, %v", redelivered, err)
	}
	if n := send(t, sender); n != 1 || len(at.heard()) != tries+1 {
		t.Error("what is to be redelivered was not sent")
	}
}

func TestSenderThatDiesInATryCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusOK))
	r.told(t, at.URL)
	taking := postgres.Taking{Most: 10, PerReceiver: 10, MostTries: 3, Lease: time.Hour}
	for try := 1; try <= 3; try++ {
		due, err := r.store.TakeDueDeliveries(t.Context(), taking)
		if err != nil || len(due) != 1 || due[0].Try != try {
			t.Fatalf("try %d: %+v, %v", try, due, err)
		}
		if again, err := r.store.TakeDueDeliveries(t.Context(), taking); err != nil || len(again) != 0 {
			t.Fatalf("it was taken twice at once: %+v, %v", again, err)
		}
		r.letTimePass(t) // the sender died, and the lease ran out
	}
	if due, err := r.store.TakeDueDeliveries(t.Context(), taking); err != nil || len(due) != 0 {
		t.Errorf("a fourth try: %+v, %v", due, err)
	}
	if d := r.delivery(t); d.State != postgres.DeliveryDead || d.Tries != 3 || !strings.Contains(d.LastError, "the sender died") {
		t.Errorf("%+v", d)
	}
}

func TestGoneDisablesTheEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusGone))
	e, _ := r.told(t, at.URL)
	later := r.happened(t, "job.failed", "")
	r.apply(t, later)
	r.exec(t, `UPDATE webhook_deliveries SET next_try_at = clock_timestamp() + interval '1 hour' WHERE message_key = $1`, later.Key)
	sender := r.sender(inside)
	if n := send(t, sender); n != 1 {
		t.Fatalf("%d tries", n)
	}
	gone, err := r.store.Endpoint(t.Context(), e.ID)
	if err != nil || gone.State != postgres.EndpointDisabled || gone.DisabledReason != "it answered 410 Gone" {
		t.Errorf("%+v, %v", gone, err)
	}
	for _, d := range r.deliveries(t) {
		if d.State != postgres.DeliveryDead {
			t.Errorf("%+v", d)
		}
	}
	r.apply(t, r.happened(t, "job.succeeded", ""))
	r.letTimePass(t)
	if n := send(t, sender); n != 0 || len(at.heard()) != 1 || len(r.deliveries(t)) != 2 {
		t.Error("a disabled endpoint is told")
	}
}

// A delivery may be written while its endpoint is disabled: the transactions overlap.
func TestDeliveryToADisabledEndpointIsNotSent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusOK))
	r.told(t, at.URL)
	r.exec(t, `UPDATE webhook_endpoints SET state = 'disabled', disabled_reason = 'by hand'`)
	if n := send(t, r.sender(inside)); n != 0 || len(at.heard()) != 0 {
		t.Error("it was told")
	}
	if d := r.delivery(t); d.State != postgres.DeliveryDead || d.Tries != 0 || d.LastError != "its endpoint is disabled" {
		t.Errorf("%+v", d)
	}
}

func TestReceiverMayAskForMoreTimeUpToTwelveHours(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asks := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Retry-After", req.URL.Query().Get("after"))
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	least := map[string]time.Duration{"3600": time.Hour, "9999999": 12 * time.Hour, "1": 9 * time.Second}
	for after := range least {
		r.apply(t, r.happened(t, "job.succeeded", asks.URL+"?after="+after))
	}
	send(t, r.sender(inside))
	for _, d := range r.deliveries(t) {
		_, after, _ := strings.Cut(d.URL, "after=")
		if wait := time.Until(d.NextTryAt); wait < least[after]-5*time.Second || wait > least[after]+time.Minute {
			t.Errorf("asked for %s seconds it waits %v", after, wait)
		}
	}
}

func TestCallbackURLIsToldByTheConfiguredSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusOK))
	m := r.happened(t, "job.cancelled", at.URL)
	r.apply(t, m)
	without := inside
	without.CallbackSecrets = nil
	send(t, r.sender(without))
	if d := r.delivery(t); d.State != postgres.DeliveryPending || d.Tries != 1 || !strings.Contains(d.LastError, "webhooks.callback_secret") || len(at.heard()) != 0 {
		t.Errorf("without a secret: %+v, heard %v", d, at.heard())
	}
	r.letTimePass(t)
	const newer = "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVz"
	both := inside
	both.CallbackSecrets = []string{newer, callbackSecret}
	send(t, r.sender(both))
	if d := r.delivery(t); d.State != postgres.DeliveryDone {
		t.Fatalf("%+v", d)
	}
	if h := at.heard()[0]; !signedBy(t, callbackSecret, h) || !signedBy(t, newer, h) || h.header.Get("webhook-id") != m.Key {
		t.Errorf("heard %v", h.header)
	}
}

func TestTwoSendersSendEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusOK))
	r.endpoint(t, at.URL)
	for range 20 {
		r.apply(t, r.happened(t, "job.succeeded", ""))
	}
	one, two := r.sender(inside), r.sender(inside)
	sent := 0
	for range 10 {
		var n [2]int
		var sending sync.WaitGroup
		for i, s := range []*webhooks.Sender{one, two} {
			sending.Go(func() {
				var err error
				if n[i], err = s.SendDue(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		sending.Wait()
		sent += n[0] + n[1]
	}
	if sent != 20 || len(at.heard()) != 20 {
		t.Errorf("%d tries, heard %d", sent, len(at.heard()))
	}
}

func TestSlowReceiverHoldsNobodyElse(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	arrived := make(chan struct{}, 100)
	slow := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	told := make(chan struct{}, 100)
	fast := newReceiver(t, func(http.ResponseWriter, *http.Request) { told <- struct{}{} })
	r.endpoint(t, slow.URL)
	for range 30 {
		r.apply(t, r.happened(t, "job.succeeded", ""))
	}
	r.endpoint(t, fast.URL, "job.failed")
	r.apply(t, r.happened(t, "job.failed", slow.URL))

	sender := r.sender(inside, func(o *webhooks.Options) { o.AtOnce, o.PerReceiver = 8, 2 })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); sender.Run(ctx) }()
	<-told // while 33 wait for the slow one
	r.apply(t, r.happened(t, "job.failed", ""))
	<-told
	if n := len(arrived); n > 4 { // two of its endpoint, two of its host
		t.Errorf("%d at once to the slow one", n)
	}
	stop()
	close(release)
	<-ended
	for _, d := range r.deliveries(t) {
		if d.URL == fast.URL && d.State != postgres.DeliveryDone {
			t.Errorf("%+v", d)
		}
	}
}
