package line

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// ownHeaders are set by the adapter or the transport, for every request anew.
var ownHeaders = []string{
	"Onejob-Job", "Onejob-Attempt", "Onejob-Callback", "Idempotency-Key", "X-Idempotency-Key",
	"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Trailer", "Expect", "Upgrade",
}

func (c Config) header(target *url.URL) (http.Header, error) {
	header := http.Header{}
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
	if c.IdempotencyHeader != "" && !httpguts.ValidHeaderFieldName(c.IdempotencyHeader) {
		return nil, Errorf(c.Name, "idempotency header %q is not a header name", c.IdempotencyHeader)
	}
	return header, nil
}

func (c Config) checkHeader(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return Errorf(c.Name, "header %q is not a header name", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return Errorf(c.Name, "the value of header %q has a control character: check the variable it comes from", name)
	case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)), c.IdempotencyHeader != "" && strings.EqualFold(name, c.IdempotencyHeader):
		return Errorf(c.Name, "header %q is set for every request: leave it out", name)
	}
	return nil
}
