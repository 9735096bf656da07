package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/webhooks"
)

// Options are what a door works with. Store, Starter and Temporal must be set.
type Options struct {
	Store     *postgres.Store
	Starter   *starter.Starter
	Temporal  func(context.Context) error // says whether Temporal answers
	Limits    onejob.Limits
	Webhooks  webhooks.Policy
	Callbacks http.Handler // of the providers; nil: they are not heard here
	Pages     http.Handler // what people look at, under every path that is none of the door's; nil: none
	OIDC      *OIDC        // nil: onejob's own tokens only
	OpenAI    *VendorDoor  // which job a request in OpenAI's format is; nil: none is taken
	Anthropic *VendorDoor  // the same of Anthropic's

	Models     map[string]string // of the providers that have one
	DeriveKeys bool              // a vendor's request without a key gets one from its content
	VendorWait time.Duration     // default 9 min; for the end of a vendor's request's job

	Rate     Rate
	Failures Rate           // default 5 a second, 50 at once; of an address, without a valid token
	Proxies  []netip.Prefix // who says in X-Forwarded-For whom a request comes from
	Timeouts Timeouts
	Waiting  int      // default 10000; long polls and streams at once
	Version  string   // of the program, in the OpenAPI document
	Metrics  *Metrics // nil: what is counted nobody reads
	Logger   *slog.Logger
}

// Timeouts bound what clients and servers may take.
type Timeouts struct {
	Header time.Duration // default 5 s; for a request's headers
	Read   time.Duration // default 30 s; for a whole request, from its first byte
	Write  time.Duration // default 1 min; for an answer, from the end of the request's headers
	Idle   time.Duration // default 2 min; between requests of a connection
	Drain  time.Duration // default 10 s; for requests under way when the door stops
	Ping   time.Duration // default 15 s; of silence on a stream, before a comment is written
	Look   time.Duration // default 250 ms; how often jobs that somebody waits for are looked at
}

func (t Timeouts) orDefault() Timeouts {
	t.Header = cmp.Or(t.Header, 5*time.Second)
	t.Read = cmp.Or(t.Read, 30*time.Second)
	t.Write = cmp.Or(t.Write, time.Minute)
	t.Idle = cmp.Or(t.Idle, 2*time.Minute)
	t.Drain = cmp.Or(t.Drain, 10*time.Second)
	t.Ping = cmp.Or(t.Ping, 15*time.Second)
	t.Look = cmp.Or(t.Look, 250*time.Millisecond)
	return t
}

// Door answers HTTP requests. It may be used concurrently.
type Door struct {
	options  Options
	issuer   *issuer // nil: none is believed
	rates    *rates
	unknown  *strangers
	bodies   *memory
	watcher  *watcher
	sender   *webhooks.Sender // of tests only
	api      huma.API
	mux      *http.ServeMux
	health   *health
	draining chan struct{} // closed when the door stops: what waits ends
}

// New returns a door. Streams and long polls are told of changes while [Door.Run] runs.
func New(o Options) *Door {
	o.Timeouts = o.Timeouts.orDefault()
	o.Rate.PerSecond = cmp.Or(o.Rate.PerSecond, 50)
	o.Rate.Burst = cmp.Or(o.Rate.Burst, 100)
	o.Failures.PerSecond = cmp.Or(o.Failures.PerSecond, 5)
	o.Failures.Burst = cmp.Or(o.Failures.Burst, 50)
	o.Waiting = cmp.Or(o.Waiting, 10_000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	o.Limits = o.Limits.OrDefault()
	d := &Door{
		options: o, rates: newRates(o.Rate), unknown: newStrangers(o.Failures), bodies: &memory{left: mostBodyBytes}, mux: http.NewServeMux(),
		watcher: newWatcher(o.Store, o.Timeouts.Look, o.Waiting, o.Logger), sender: webhooks.NewSender(webhooks.Options{Policy: o.Webhooks}),
		health: newHealth(o.Store.Check, o.Temporal, o.Logger), draining: make(chan struct{}),
	}
	if o.OIDC != nil {
		d.issuer = newIssuer(*o.OIDC)
	}
	d.api = humago.New(d.mux, d.description())
	d.api.UseMiddleware(d.admit)
	d.addJobs()
	d.addDecisions()
	d.addEvents()
	d.addMoney()
	d.addWebhooks()
	d.addVendors()
	d.addPublic()
	return d
}

// exchange is a request under way and its answer.
type exchange struct {
	request   *http.Request
	writer    http.ResponseWriter
	control   *http.ResponseController
	principal Principal
	body      []byte
	route     string // as metrics name it
	waited    bool   // for a job to change
}

type exchangeKey struct{}

// exchangeOf returns the exchange that a handler works on.
func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// principalOf returns whom the request of ctx comes from.
func principalOf(ctx context.Context) Principal { return exchangeOf(ctx).principal }

// Handler returns the handler of everything that the door serves.
func (d *Door) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered, began := &noted{ResponseWriter: w}, time.Now()
		x := &exchange{request: r, writer: answered, control: http.NewResponseController(w)}
		defer func() { d.options.Metrics.answered(x, answered, began) }()
		defer d.recovered(answered, r)
		secure(w.Header())
		d.serve(x, answered, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
	})
}

// serve gives the request to whom its path belongs.
func (d *Door) serve(x *exchange, w http.ResponseWriter, r *http.Request) {
	if d.options.Callbacks != nil && strings.HasPrefix(r.URL.Path, "/v1/callbacks/") {
		x.route = routeCallback
		d.options.Callbacks.ServeHTTP(w, r)
		return
	}
	_, pattern := d.mux.Handler(r)
	switch {
	case pattern != "":
		x.route = pattern
		d.mux.ServeHTTP(w, r)
	case d.options.Pages != nil && !strings.HasPrefix(r.URL.Path, "/v1/"):
		x.route = routePage
		d.options.Pages.ServeHTTP(w, r)
	default:
		x.route = routeNone
		d.refuse(w, r)
	}
}

// refuse answers what no route takes.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request) {
	said := &unsent{header: http.Header{}}
	d.mux.ServeHTTP(said, r) // it knows the methods of the path
	if allowed := said.header.Get("Allow"); said.status == http.StatusMethodNotAllowed {
		newProblem(methodNotAllowed, "%s does not know %s: use %s", onejob.Shorten(r.URL.Path, 200), onejob.Shorten(r.Method, 20), allowed).with("Allow", allowed).write(w)
		return
	}
	newProblem(notFound, "there is nothing at %s: /openapi.json lists what there is", onejob.Shorten(r.URL.Path, 200)).write(w)
}

// secure sets what every answer tells browsers.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// recovered makes a panic one answer and one line of the log. An answer that has begun is cut,
// so that nobody takes it for a whole one.
func (d *Door) recovered(w *noted, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		w.cut = true
		panic(p)
	}
	d.options.Logger.Error("a request's handler panicked", "method", r.Method, "path", onejob.Shorten(r.URL.Path, 200), "panic", p, "stack", string(debug.Stack()))
	if w.status != 0 {
		w.cut = true
		panic(http.ErrAbortHandler)
	}
	newProblem(internal, "it is in the log of this instance").write(w)
}

// noted is a writer that knows what its answer has begun with.
type noted struct {
	http.ResponseWriter
	status int  // 0: it has not begun
	cut    bool // it has broken off
}

func (w *noted) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // what comes before is no answer yet
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *noted) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (w *noted) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// unsent is an answer that nobody gets.
type unsent struct {
	header http.Header
	status int
}

func (w *unsent) Header() http.Header         { return w.header }
func (w *unsent) Write(b []byte) (int, error) { return len(b), nil }
func (w *unsent) WriteHeader(status int)      { w.status = status }

// admit lets a request to its handler that names somebody who may use it, not too often, with a
// body that can be taken.
func (d *Door) admit(ctx huma.Context, next func(huma.Context)) {
	if err := d.admitted(ctx.Context(), ctx.Operation()); err != nil {
		d.turnAway(ctx, err)
		return
	}
	next(ctx)
}

func (d *Door) admitted(ctx context.Context, op *huma.Operation) (err error) {
	x, m := exchangeOf(ctx), d.options.Metrics
	credentials := x.request.Header
	if v := vendorOf(op); v != nil {
		credentials = v.credentials(credentials)
	}
	if x.principal, err = d.authenticate(ctx, credentials, addressOf(x.request, d.options.Proxies)); err != nil {
		return err
	}
	if wait, ok := d.rates.take(x.principal.ID, time.Now()); !ok {
		return m.reject(forRate, tooMany("come with this token", wait))
	}
	if least, _ := op.Metadata[leastRole].(onejob.Role); !x.principal.Role.Includes(least) {
		return m.reject(forRole, newProblem(forbidden, "this needs the role %s, and the token has %s", least, x.principal.Role))
	}
	most, ok := op.Metadata[mostBody].(int)
	if ok && op.Metadata[noBodyToo] == true && x.request.ContentLength == 0 {
		x.body = []byte("{}")
		return nil
	}
	if ok {
		return m.reject(forBody, d.readBody(x, most))
	}
	return nil
}
