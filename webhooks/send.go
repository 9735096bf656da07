package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// webhook is one message as a receiver gets it.
type webhook struct {
	id      string // the same in every try
	topic   string
	at      time.Time // when it happened
	payload []byte    // JSON
	secrets []string
}

// body is the same in every try, byte by byte: the payload goes in as it was written.
func (w webhook) body() ([]byte, error) {
	topic, err := json.Marshal(w.topic)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"type":%s,"timestamp":"%s","data":%s}`, topic, w.at.UTC().Format(time.RFC3339Nano), w.payload), nil
}

// signatures returns the webhook-signature of the body, one by each secret.
func (w webhook) signatures(at time.Time, body []byte) (string, error) {
	var all []string
	for _, secret := range w.secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return "", onejob.Errorf(onejob.CodeMisconfigured, "a webhook secret is not whsec_ and base64: replace it")
		}
		signature, err := signer.Sign(w.id, at, body)
		if err != nil {
			return "", err
		}
		all = append(all, signature)
	}
	return strings.Join(all, " "), nil
}

// request returns the signed request of a try at that time.
func (w webhook) request(ctx context.Context, to string, at time.Time) (*http.Request, error) {
	body, err := w.body()
	if err != nil {
		return nil, err
	}
	signatures, err := w.signatures(at, body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"onejob-webhooks/1"},
		"Webhook-Id": {w.id}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signatures},
	}
	return req, nil
}

// answer is what a receiver said to a try.
type answer struct {
	status     int // 0: nothing
	retryAfter time.Duration
	err        error // nil: it took the webhook
}

// mostAnswerBytes is how much of a body is read, so that the connection can be used again.
const mostAnswerBytes = 64 << 10

// post makes one try.
func (s *Sender) post(ctx context.Context, to string, w webhook) answer {
	if err := s.checkURL(to); err != nil {
		return answer{err: err}
	}
	now := time.Now()
	req, err := w.request(ctx, to, now)
	if err != nil {
		return answer{err: err}
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{err: withoutURL(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, mostAnswerBytes) // the status has said it
	return answer{resp.StatusCode, verdict.RetryAfter(resp.Header, now), judge(resp.StatusCode)}
}

func judge(status int) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return fmt.Errorf("it answered %d: redirects are not followed, give the URL behind it", status)
	}
	return fmt.Errorf("it answered %d", status)
}

// withoutURL returns the cause alone: a URL may hold secrets.
func withoutURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		if of.Timeout() {
			return errors.New("it did not answer in time")
		}
		return of.Err
	}
	return err
}

// signedBy returns the secrets that sign the delivery.
func (p Policy) signedBy(d postgres.DueDelivery) ([]string, error) {
	switch {
	case d.EndpointID != "":
		return []string{d.Secret}, nil
	case len(p.CallbackSecrets) > 0:
		return p.CallbackSecrets, nil
	}
	return nil, onejob.Errorf(onejob.CodeMisconfigured, "what goes to a callback_url is signed, and no secret is configured: set webhooks.callback_secret")
}

// deliver makes one try of a delivery.
func (s *Sender) deliver(ctx context.Context, d postgres.DueDelivery) answer {
	secrets, err := s.signedBy(d)
	if err != nil {
		return answer{err: err}
	}
	return s.post(ctx, d.URL, webhook{id: d.MessageKey, topic: d.Topic, at: d.HappenedAt, payload: d.Payload, secrets: secrets})
}

// Ping sends the endpoint a message that means nothing, now, and returns the status that it
// answers with, 0 where there was none. It fails if the endpoint did not take it.
func (s *Sender) Ping(ctx context.Context, e postgres.Endpoint, id string, at time.Time) (int, error) {
	payload, err := json.Marshal(map[string]string{"endpoint_id": e.ID})
	if err != nil {
		return 0, err
	}
	a := s.post(ctx, e.URL, webhook{id: "webhook.ping:" + id, topic: "webhook.ping", at: at, payload: payload, secrets: []string{e.Secret}})
	if a.err != nil {
		return a.status, fmt.Errorf("webhook endpoint %s did not take it: %v", e.ID, a.err) // whatever code the cause has
	}
	return a.status, nil
}

// detail is an error as it is kept.
func detail(err error) string {
	return provider.Secrets{}.Clean(strings.ReplaceAll(err.Error(), "\x00", ""))
}
