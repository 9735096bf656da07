package callbacks

import (
	"errors"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// mostEnvelopeBytes is what a callback may have around its result.
const mostEnvelopeBytes = 64 << 10

// body reads the callback as far as it may be long.
func (r *receiver) body(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	most := int64(r.Limits.OrDefault().ResultBytes) + mostEnvelopeBytes
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, most))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, refusal{http.StatusRequestEntityTooLarge, "the body is longer than a result may be"}
	}
	if err != nil {
		return nil, refusal{http.StatusBadRequest, "the body ended early"}
	}
	return body, nil
}

// mostIDBytes bounds the sender's id of a message.
const mostIDBytes = 255

// verify says whether one of the secrets signed the message, not long ago.
func verify(secrets []string, body []byte, header http.Header) error {
	if id := header.Get(standardwebhooks.HeaderWebhookID); len(id) > mostIDBytes {
		return refusal{http.StatusBadRequest, "webhook-id is too long"}
	}
	for _, secret := range secrets {
		webhook, invalid := standardwebhooks.NewWebhook(secret)
		if invalid != nil {
			continue // it signed nothing
		}
		switch err := webhook.Verify(body, header); {
		case err == nil:
			return nil
		case errors.Is(err, standardwebhooks.ErrRequiredHeaders), errors.Is(err, standardwebhooks.ErrInvalidHeaders):
			return refusal{http.StatusBadRequest, "webhook-id, webhook-timestamp or webhook-signature is missing or unreadable"}
		case errors.Is(err, standardwebhooks.ErrMessageTooOld), errors.Is(err, standardwebhooks.ErrMessageTooNew):
			return refusal{http.StatusUnauthorized, "webhook-timestamp is more than five minutes off"}
		}
	}
	return refusal{http.StatusUnauthorized, "the signature does not hold"}
}

// read fills in what the callback says. An answer that is neither an outcome nor of a
// call in progress says nothing, and is refused.
func read(c *postgres.Callback, answer provider.Answer, inputBytes int) error {
	c.Reference = answer.Reference
	switch {
	case answer.Certainty == provider.Succeeded, answer.Certainty == provider.Failed:
		outcome, err := activities.OutcomeOf(answer, inputBytes, "callback/"+c.WebhookID)
		c.Outcome = &outcome
		return err
	case answer.Reason == onejob.ReasonInProgress:
		return nil
	}
	return refusal{http.StatusBadRequest, "the body is no outcome: " + answer.Detail}
}
