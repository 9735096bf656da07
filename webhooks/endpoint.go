package webhooks

import (
	"crypto/rand"
	"encoding/base64"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// Policy is what the operator lets webhooks do.
type Policy struct {
	CallbackSecrets []string      // of Standard Webhooks; each signs what goes to a job's callback_url
	AllowPrivate    bool          // http, and addresses that are not public, are called too
	Timeout         time.Duration // default [DefaultTimeout]; of one try
	Resolver        *net.Resolver // default the system's
}

// DefaultTimeout is how long a receiver may take to answer.
const DefaultTimeout = 10 * time.Second

// secretBytes is the length of an endpoint's key. Standard Webhooks asks for 24 to 64.
const secretBytes = 32

// NewEndpoint returns an endpoint with a secret of its own, to be added to the store. It fails
// with [onejob.ErrInvalidRequest].
func (p Policy) NewEndpoint(owner, url string, topics []string) (postgres.Endpoint, error) {
	if err := onejob.CheckOwner(owner); err != nil {
		return postgres.Endpoint{}, err
	}
	if err := p.checkURL(url); err != nil {
		return postgres.Endpoint{}, err
	}
	for _, topic := range topics {
		if !slices.Contains(Topics, topic) {
			return postgres.Endpoint{}, onejob.Errorf(onejob.CodeInvalidRequest, "topic %q is not told: use some of %s", onejob.Shorten(topic, 60), strings.Join(Topics, ", "))
		}
	}
	key := make([]byte, secretBytes)
	rand.Read(key) // never fails
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	id, err := uuid.NewV7()
	return postgres.Endpoint{ID: id.String(), Owner: owner, URL: url, Secret: secret, Topics: topics}, err
}
