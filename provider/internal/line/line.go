// Package line holds what every adapter needs to reach its provider: the checked URL
// and headers, the transport that sends a request at most once, and the secrets that no
// text may show.
//
// [Line.Send] carries a request that the adapter made itself, [Line.Exchange] one that a
// vendor's SDK makes. It imports the domain, provider, transport and verdict.
package line

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

// Config describes the way to a provider.
type Config struct {
	Name              string // for messages
	URL               string // http or https; a user in it becomes a Basic credential
	Headers           map[string]string
	IdempotencyHeader string   // empty: no key is sent
	Secrets           []string // beside the headers' values and what is secret in the URLs
	MoreURLs          []string // whose secrets count too
	Limits            onejob.Limits
	Proxy             string
	RootCAs           *x509.CertPool
}

// Line is the way to one provider. It may be used concurrently.
type Line struct {
	URL       *url.URL    // without user and fragment
	Header    http.Header // the configured ones, and the credential of the URL
	KeyHeader string
	Limits    onejob.Limits // with their defaults
	Secrets   provider.Secrets

	// Destination is a digest of the address, the account and how keys are sent; see
	// [provider.Destined].
	Destination string

	transport *transport.Transport
}

// New returns the line. It returns an [onejob.ErrMisconfigured] that names the provider
// and the remedy.
func New(c Config) (*Line, error) {
	target, err := c.target()
	if err != nil {
		return nil, err
	}
	header, err := c.header(target)
	if err != nil {
		return nil, err
	}
	carrier, err := transport.New(transport.Options{Proxy: c.Proxy, RootCAs: c.RootCAs})
	if err != nil {
		return nil, Errorf(c.Name, "%w", err)
	}
	l := &Line{
		URL: target, Header: header, KeyHeader: c.IdempotencyHeader,
		Limits: c.Limits.OrDefault(), Secrets: c.secrets(), transport: carrier,
		Destination: c.destination(),
	}
	l.URL.User = nil // it is in the header now
	return l, nil
}

func (c Config) destination() string {
	digest := sha256.New()
	for _, part := range slices.Concat([]string{c.URL, c.IdempotencyHeader}, c.Secrets) {
		fmt.Fprintf(digest, "%q\n", part)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		fmt.Fprintf(digest, "%q: %q\n", name, c.Headers[name])
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// Errorf returns an [onejob.ErrMisconfigured] about the provider of that name.
func Errorf(name, format string, args ...any) error {
	return onejob.Errorf(onejob.CodeMisconfigured, "provider %q: "+format, append([]any{name}, args...)...)
}

func (c Config) target() (*url.URL, error) {
	target, err := url.Parse(c.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, Errorf(c.Name, "its url is not one: write it as https://host/path")
	}
	target.Fragment = ""
	return target, nil
}

// Send sends the request once and reads the answer. An error means that no answer's head
// came.
func (l *Line) Send(req *http.Request) (verdict.Received, error) {
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return verdict.Received{}, err
	}
	defer func() { _ = resp.Body.Close() }() // what was read is judged, the rest is not ours
	return verdict.Receive(req.Context(), resp, l.Limits.ResultBytes), nil
}

// Do sends a request of an SDK, once: a Line is the HTTP client of one. It follows no
// redirect, and reads no Location.
func (l *Line) Do(req *http.Request) (*http.Response, error) { return l.transport.RoundTrip(req) }

// Close closes idle connections. Calls under way go on.
func (l *Line) Close() { l.transport.CloseIdle() }

// Clean returns the answer with its detail as one line without secrets.
func (l *Line) Clean(answer provider.Answer) provider.Answer {
	answer.Detail = l.Secrets.Clean(answer.Detail)
	return answer
}

// NoKey is the answer to a re-ask of a provider for which no key is configured, or of a
// call that has none: nothing is sent.
var NoKey = provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonNotSent, Detail: "not asked again: there is no idempotency key"}

// NameCall says on whose behalf a request is made.
func NameCall(set func(name, value string), jobID string, attempt int) {
	set("Onejob-Job", jobID)
	set("Onejob-Attempt", strconv.Itoa(attempt))
}

// secrets returns what no detail may show: header values, and user and query of the
// URLs.
func (c Config) secrets() provider.Secrets {
	values := append([]string{}, c.Secrets...)
	for _, value := range c.Headers {
		values = append(values, value)
	}
	for _, text := range append([]string{c.URL, c.Proxy}, c.MoreURLs...) {
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
