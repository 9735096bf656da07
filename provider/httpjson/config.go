package httpjson

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
	"golang.org/x/net/http/httpguts"
)

// New returns an adapter for the provider. It returns an [onejob.ErrMisconfigured]
// that names the provider and the remedy.
func New(c Config) (*Adapter, error) {
	target, err := c.target()
	if err != nil {
		return nil, err
	}
	header, err := c.header(target)
	if err != nil {
		return nil, err
	}
	if err := c.Certain.Check(); err != nil {
		return nil, c.errorf("%w", err)
	}
	carrier, err := transport.New(transport.Options{Proxy: c.Proxy, RootCAs: c.RootCAs})
	if err != nil {
		return nil, c.errorf("%w", err)
	}
	a := &Adapter{
		url: target, header: header, keyHeader: c.IdempotencyHeader,
		judge:   verdict.Judge{Limits: c.Limits.OrDefault(), Certain: c.Certain, Now: time.Now, API: runs},
		secrets: c.secrets(), transport: carrier,
	}
	a.url.User = nil // it is in the header now
	return a, nil
}

func (c Config) errorf(format string, args ...any) error {
	return onejob.Errorf(onejob.CodeMisconfigured, "provider %q: "+format, append([]any{c.Name}, args...)...)
}

func (c Config) target() (*url.URL, error) {
	target, err := url.Parse(c.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, c.errorf("its url is not one: write it as https://host/path")
	}
	target.Fragment = ""
	return target, nil
}

// ownHeaders are set by the adapter or the transport, for every request anew.
var ownHeaders = []string{
	"Onejob-Job", "Onejob-Attempt", "Onejob-Callback", "Idempotency-Key", "X-Idempotency-Key",
	"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Trailer", "Expect", "Upgrade",
}

func (c Config) header(target *url.URL) (http.Header, error) {
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {"onejob"}}
	if target.User != nil {
		password, _ := target.User.Password()
		credential := base64.StdEncoding.EncodeToString([]byte(target.User.Username() + ":" + password))
		header.Set("Authorization", "Basic "+credential)
	}
	for name, value := range c.Headers {
		if err := c.checkHeader(name, value); err != nil {
			return nil, err
		}
		header.Set(name, value)
	}
	header.Set("Content-Type", "application/json")
	if c.IdempotencyHeader != "" && !httpguts.ValidHeaderFieldName(c.IdempotencyHeader) {
		return nil, c.errorf("idempotency header %q is not a header name", c.IdempotencyHeader)
	}
	return header, nil
}

func (c Config) checkHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return c.errorf("header %q is not a header name", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return c.errorf("the value of header %q has a control character: check the variable it comes from", name)
	case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)), c.IdempotencyHeader != "" && strings.EqualFold(name, c.IdempotencyHeader):
		return c.errorf("header %q is set for every request: leave it out", name)
	}
	return nil
}

// secrets returns what no detail may show: header values, and user and query of the
// URLs.
func (c Config) secrets() provider.Secrets {
	var values []string
	for _, value := range c.Headers {
		values = append(values, value)
	}
	for _, text := range []string{c.URL, c.Proxy} {
		if u, err := url.Parse(text); err == nil {
			values = append(values, urlSecrets(u)...)
		}
	}
	return provider.NewSecrets(values...)
}

func urlSecrets(u *url.URL) []string {
	values := []string{u.RawQuery}
	for _, parameters := range u.Query() {
		values = append(values, parameters...)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		credential := u.User.Username() + ":" + password
		values = append(values, u.User.Username(), password, base64.StdEncoding.EncodeToString([]byte(credential)))
	}
	return values
}
