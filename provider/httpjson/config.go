package httpjson

import (
	"cmp"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// Config describes a provider.
type Config struct {
	Name    string            // for messages
	URL     string            // http or https; a user in it becomes a Basic credential
	Headers map[string]string // with their values resolved; every value is treated as a secret

	// IdempotencyHeader carries the attempt's key, such as Idempotency-Key. Empty: the
	// provider does not honour keys, and none is sent.
	IdempotencyHeader string

	LookUp  LookUp // without a URL: the provider cannot be asked
	Cancel  Cancel // without a URL: it cannot be asked to give up
	Limits  onejob.Limits
	Certain verdict.Certain
	Proxy   string         // URL; empty: none, whatever the environment says
	RootCAs *x509.CertPool // nil: the system's
}

// New returns an adapter for the provider. It returns an [onejob.ErrMisconfigured]
// that names the provider and the remedy.
func New(c Config) (*Adapter, error) {
	if err := cmp.Or(c.Certain.Check(), c.LookUp.check(), c.Cancel.check()); err != nil {
		return nil, line.Errorf(c.Name, "%w", err)
	}
	way, err := line.New(line.Config{
		Name: c.Name, URL: c.URL, Headers: c.Headers, IdempotencyHeader: c.IdempotencyHeader,
		MoreURLs: []string{c.LookUp.URL, c.Cancel.URL}, Limits: c.Limits, Proxy: c.Proxy, RootCAs: c.RootCAs,
	})
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		line: way, lookUpAt: place(c.LookUp.URL), cancelAt: place(c.Cancel.URL), cancelMethod: cmp.Or(c.Cancel.Method, http.MethodPost),
	}
	a.calls = verdict.Judge{Limits: way.Limits, Certain: c.Certain, Now: time.Now, API: runs}
	a.lookUps = a.calls
	a.lookUps.API, a.lookUps.NotFoundAfter = states{LookUp: c.LookUp, certain: c.Certain}.api(), c.LookUp.NotFoundAfter
	return a, nil
}
