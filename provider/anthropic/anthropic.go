// Package anthropic calls a model over the Anthropic API: messages, or message batches
// of one, which the provider keeps under a reference until they are done.
//
// A job's input is the vendor's own request body; [Config] says what is put in. A result
// is the vendor's message as it came, of a streamed answer the message that it would have
// been without the stream. It is a result only if it stopped as [Config.Accept] says: a
// refusal, a paused turn, an answer cut by its length is Failed, with the bare code of
// its end in front of the detail and its usage kept. A stream without its last event is
// no result, whatever came of it.
//
// [Adapter.Prompted] makes such an input of a contract's prompt, and [Adapter.Reply] takes what
// the model wrote out of a result.
//
// Requests are made by the vendor's SDK without its retries, time-outs, telemetry and
// environment variables, over our own transport, which sends each at most once; answers
// are judged as they were on the wire (package verdict). It returns no errors; what went
// wrong is in the answer. It imports the domain, provider, transport and verdict.
package anthropic

import (
	"cmp"
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/input"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// DefaultURL is Anthropic's own server.
const DefaultURL = "https://api.anthropic.com"

// The APIs.
const (
	Messages = "messages"
	Batch    = "batch" // message batches of one
)

// Config describes a provider.
type Config struct {
	Name    string            // for messages
	URL     string            // the base URL, without /v1; its query goes with every request; empty: [DefaultURL]
	APIKey  string            // sent as a bearer; empty: none is; a gateway may want it as a header X-Api-Key
	Headers map[string]string // such as Anthropic-Version or Anthropic-Beta; every value is treated as a secret
	Model   string            // put into an input that names none
	API     string            // empty: [Messages]

	Stream bool     // of messages: the answer comes as a stream of events, unless the input says stream: false
	Accept []string // the stop reasons that are a result; empty: those of a whole answer

	// IdempotencyHeader carries the attempt's key. Empty, as for Anthropic itself: the
	// provider does not honour keys, and none is sent.
	IdempotencyHeader string

	// NotFoundAfter is the age from which a batch that the provider does not know had no
	// effect. 0: that is never certain.
	NotFoundAfter time.Duration

	Limits  onejob.Limits
	Certain verdict.Certain
	Proxy   string         // URL; empty: none, whatever the environment says
	RootCAs *x509.CertPool // nil: the system's
}

// Adapter is a [provider.Adapter] for one provider, and a [provider.LookUpper] and
// [provider.Canceller] for its batches.
type Adapter struct {
	line   *line.Line
	client sdk.Client
	rules  input.Rules
	model  string
	batch  bool

	version string

	calls   verdict.Judge
	batches verdict.Judge // of look-ups and cancels of a batch
	results verdict.Judge // of what a batch that ended holds
}

// New returns an adapter for the provider. It returns an [onejob.ErrMisconfigured]
// that names the provider and the remedy.
func New(c Config) (*Adapter, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	way, err := line.New(line.Config{
		Name: c.Name, URL: cmp.Or(c.URL, DefaultURL), Headers: c.Headers, IdempotencyHeader: c.IdempotencyHeader,
		Secrets: []string{c.APIKey}, Limits: c.Limits, Proxy: c.Proxy, RootCAs: c.RootCAs,
	})
	if err != nil {
		return nil, err
	}
	a := &Adapter{
		line: way, client: sdk.NewClient(options(way, c.APIKey)...), model: c.Model, batch: c.API == Batch, version: VersionOf(c.API),
		rules: input.Rules{Model: c.Model, Flags: []input.Flag{{Name: "stream", On: c.Stream}}},
	}
	a.setJudges(c)
	return a, nil
}

func (a *Adapter) setJudges(c Config) {
	reader := messageReader{accepted: verdict.Ends(c.Accept).Or(wholeMessage), certain: c.Certain}
	a.calls = verdict.Judge{Limits: a.line.Limits, Certain: c.Certain, Now: time.Now, API: verdict.API{Read: reader.read, Usage: counts.Read}}
	a.batches, a.results = a.calls, a.calls
	a.batches.API.Read, a.batches.NotFoundAfter = readBatch, c.NotFoundAfter
	a.results.API.Read = reader.readResult // not found here is a result that is gone, not a call without effect
	if a.batch {
		a.calls.API.Read = readBatch
	}
}

func (c Config) check() error {
	path := strings.TrimSuffix(c.URL, "/")
	switch {
	case c.Model == "":
		return line.Errorf(c.Name, "it has no model: add it")
	case !slices.Contains([]string{"", Messages, Batch}, c.API):
		return line.Errorf(c.Name, "its api is %q: use %s or %s", c.API, Messages, Batch)
	case c.API == Batch && c.Stream:
		return line.Errorf(c.Name, "a batch cannot stream: leave stream out")
	case strings.HasSuffix(path, "/v1"):
		return line.Errorf(c.Name, "its url ends in /v1, which the SDK adds: leave it out")
	case c.APIKey != "" && (c.sets("Authorization") || c.sets("X-Api-Key")):
		return line.Errorf(c.Name, "it has an api key and a header Authorization or X-Api-Key: choose one")
	}
	if err := c.Certain.Check(); err != nil {
		return line.Errorf(c.Name, "%w", err)
	}
	return nil
}

func (c Config) sets(header string) bool {
	for name := range c.Headers {
		if http.CanonicalHeaderKey(name) == header {
			return true
		}
	}
	return false
}

// options make the SDK send one request over our line, and nothing of its own into it.
func options(way *line.Line, key string) []option.RequestOption {
	base := url.URL{Scheme: way.URL.Scheme, Host: way.URL.Host, Path: way.URL.Path, RawPath: way.URL.RawPath}
	all := []option.RequestOption{
		option.WithoutEnvironmentDefaults(), option.WithoutOpenTelemetry(), option.WithOpenTelemetryPropagation(false),
		option.WithHTTPClient(way), option.WithMaxRetries(0), option.WithBaseURL(base.String()),
	}
	if key != "" {
		all = append(all, option.WithAPIKey(key))
	}
	for name := range way.Header {
		all = append(all, option.WithHeader(name, way.Header.Get(name)))
	}
	for name, values := range way.URL.Query() {
		for _, value := range values {
			all = append(all, option.WithQueryAdd(name, value))
		}
	}
	return all
}

// Close closes idle connections. Calls under way go on.
func (a *Adapter) Close() { a.line.Close() }

var (
	_ provider.Adapter   = (*Adapter)(nil)
	_ provider.ReAsker   = (*Adapter)(nil)
	_ provider.LookUpper = (*Adapter)(nil)
	_ provider.Canceller = (*Adapter)(nil)
)
