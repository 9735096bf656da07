// Package openai calls a model over the OpenAI API, at OpenAI or at any server that
// speaks it: chat completions, or responses, in the background too.
//
// A job's input is the vendor's own request body; [Config] says what is put in. A result
// is the vendor's response body as it came, of a streamed answer the body that it would
// have had without the stream. It is a result only if it ended as [Config.Accept] says:
// a refusal, a content filter, an answer cut by its length is Failed, with the bare code
// of its end in front of the detail and its usage kept. A stream without its last event
// is no result, whatever came of it.
//
// [Adapter.Prompted] makes such an input of a contract's prompt, and [Adapter.Reply] takes what
// the model wrote out of a result.
//
// Requests are made by the vendor's SDK without its retries, time-outs and environment
// variables, over our own transport, which sends each at most once; answers are judged
// as they were on the wire (package verdict). It returns no errors; what went wrong is
// in the answer. It imports the domain, provider, transport and verdict.
package openai

import (
	"cmp"
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/input"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// DefaultURL is OpenAI's own server.
const DefaultURL = "https://api.openai.com/v1"

// The APIs.
const (
	Chat      = "chat"      // chat completions
	Responses = "responses" // responses
)

// Config describes a provider.
type Config struct {
	Name    string            // for messages
	URL     string            // the base URL, mostly with /v1 at its end; its query goes with every request; empty: [DefaultURL]
	APIKey  string            // empty: none is sent; local servers need none
	Headers map[string]string // such as OpenAI-Project, or api-key for Azure; every value is treated as a secret
	Model   string            // put into an input that names none
	API     string            // empty: [Chat]

	Background bool     // of responses: the call is taken under its id, and looked up
	Stream     bool     // the answer comes as a stream of events, unless the input says stream: false
	Accept     []string // the ends that are a result; empty: those of a whole answer

	// IdempotencyHeader carries the attempt's key. Empty, as for OpenAI itself: the
	// provider does not honour keys, and none is sent.
	IdempotencyHeader string

	// NotFoundAfter is the age from which a response that the provider does not know had
	// no effect. 0, as for OpenAI itself, which forgets: that is never certain.
	NotFoundAfter time.Duration

	Limits  onejob.Limits
	Certain verdict.Certain
	Proxy   string         // URL; empty: none, whatever the environment says
	RootCAs *x509.CertPool // nil: the system's
}

// Adapter is a [provider.Adapter] for one provider, and a [provider.LookUpper] and
// [provider.Canceller] for its background responses.
type Adapter struct {
	line    *line.Line
	options []option.RequestOption
	rules   input.Rules
	api     api
	judge   verdict.Judge
	model   string

	background bool

	completions sdk.ChatCompletionService
	responses   responses.ResponseService
	models      sdk.ModelService
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
	a := &Adapter{line: way, options: options(way, c.APIKey), rules: c.rules(), model: c.Model, background: c.Background}
	a.completions = sdk.NewChatCompletionService(a.options...)
	a.responses = responses.NewResponseService(a.options...)
	a.models = sdk.NewModelService(a.options...)
	a.api = a.chat(c)
	if c.API == Responses {
		a.api = a.response(c)
	}
	a.api.version = VersionOf(c.API)
	a.judge = verdict.Judge{Limits: way.Limits, Certain: c.Certain, Now: time.Now, NotFoundAfter: c.NotFoundAfter, API: a.api.answers}
	return a, nil
}

func (c Config) check() error {
	switch {
	case c.Model == "":
		return line.Errorf(c.Name, "it has no model: add it")
	case !slices.Contains([]string{"", Chat, Responses}, c.API):
		return line.Errorf(c.Name, "its api is %q: use %s or %s", c.API, Chat, Responses)
	case c.Background && c.API != Responses:
		return line.Errorf(c.Name, "only api: responses runs in the background: add it, or leave background out")
	case c.Background && c.Stream:
		return line.Errorf(c.Name, "it runs in the background and streams: choose one")
	case c.APIKey != "" && c.sets("Authorization"):
		return line.Errorf(c.Name, "it has an api key and a header Authorization: choose one")
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

// rules say what of an input is the configuration's.
func (c Config) rules() input.Rules {
	r := input.Rules{Model: c.Model, Flags: []input.Flag{{Name: "stream", On: c.Stream}}}
	if c.API == Responses {
		r.Flags = append(r.Flags, input.Flag{Name: "background", On: c.Background})
	} else {
		r.Absent = []input.Member{{Name: "stream_options", Value: `{"include_usage":true}`, With: "stream"}}
	}
	return r
}

// options make the SDK send one request over our line, and nothing of its own into it.
// The services are built from them alone: the SDK's client would read the environment.
func options(way *line.Line, key string) []option.RequestOption {
	base := url.URL{Scheme: way.URL.Scheme, Host: way.URL.Host, Path: way.URL.Path, RawPath: way.URL.RawPath}
	all := []option.RequestOption{option.WithHTTPClient(way), option.WithMaxRetries(0), option.WithBaseURL(base.String())}
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
