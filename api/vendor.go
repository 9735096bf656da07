package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
)

// VendorDoor says which job a request in a vendor's format is.
type VendorDoor struct {
	Kind      string
	Provider  string
	Fallbacks []string
	Models    map[string]string // the provider of a model that has another one
}

// vendor is a wire format that clients speak already.
type vendor struct {
	VendorDoor
	wait       time.Duration // for a job's end
	deriveKeys bool
	model      func(provider string) string // that the provider is configured with

	wire.Format
	credentials func(http.Header) http.Header // as a bearer token
}

// The headers that a vendor's client gets beside the vendor's own.
const (
	jobHeader     = "Onejob-Job"
	problemHeader = "Onejob-Problem"
	retryHeader   = "X-Should-Retry" // the vendors' SDKs do as it says
)

// vendorRoute is the metadata of an operation whose answers are in a vendor's format.
const vendorRoute = "onejob.vendor" // *vendor

// defaultVendorWait is less than the ten minutes after which the vendors' SDKs ask again.
const defaultVendorWait = 9 * time.Minute

// addVendors adds the vendors' doors that are configured.
func (d *Door) addVendors() {
	if v := d.options.OpenAI; v != nil {
		d.addVendor(&vendor{VendorDoor: *v, Format: wire.OpenAI, credentials: func(h http.Header) http.Header { return h }}, "/v1/chat/completions", "create-chat-completion", "Create a chat completion", "OpenAI's")
	}
	if v := d.options.Anthropic; v != nil {
		d.addVendor(&vendor{VendorDoor: *v, Format: wire.Anthropic, credentials: keyAsBearer}, "/v1/messages", "create-message", "Create a message", "Anthropic's")
	}
}

// keyAsBearer takes the key that Anthropic's SDK sends in a header of its own.
func keyAsBearer(h http.Header) http.Header {
	if keys := h.Values("X-Api-Key"); len(keys) == 1 && len(h.Values("Authorization")) == 0 {
		return http.Header{"Authorization": {"Bearer " + keys[0]}}
	}
	return h
}

func (d *Door) addVendor(v *vendor, path, id, summary, whose string) {
	v.wait, v.deriveKeys = cmp.Or(d.options.VendorWait, defaultVendorWait), d.options.DeriveKeys
	v.model = func(provider string) string { return d.options.Models[provider] }
	keyed := keyRequired
	if v.deriveKeys {
		keyed = keyOptional
	}
	r := route{
		method: http.MethodPost, path: path, id: id, tag: "Vendors", summary: summary, keyed: keyed, body: map[string]any{},
		example: json.RawMessage(`{"model": "m-large", "messages": [{"role": "user", "content": "Hello"}]}`),
		most:    d.options.Limits.InputBytes + mostEnvelopeBytes,
		description: "Takes and answers " + whose + " wire format, so that its SDK needs another base URL and a key in the header and nothing else. The request is one job: " +
			"sent again under its key, by the SDK after a time-out for instance, it is the same job, and its answer the first one. " +
			"`Onejob-Job` has the job's id. `stream` may be true: the answer comes when it is whole. Errors are in " + whose + " format; `Onejob-Problem` has the type of the problem.",
	}
	op := d.operation(r)
	op.Metadata[vendorRoute] = v
	op.RejectUnknownQueryParameters = false // SDKs send some
	huma.Register(d.api, op, func(ctx context.Context, _ *struct{}) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(huma.Context) { d.vend(ctx, v) }}, nil
	})
	d.complete(d.api.OpenAPI().Paths[path].Post, r)
}

// vendorOf returns the vendor in whose format the operation answers, or nil.
func vendorOf(op *huma.Operation) *vendor {
	v, _ := op.Metadata[vendorRoute].(*vendor)
	return v
}

// turnAway answers a request that did not come to its handler.
func (d *Door) turnAway(ctx huma.Context, err error) {
	_, w := humago.Unwrap(ctx)
	p := problemOf(d.options.Logger, err)
	if v := vendorOf(ctx.Operation()); v != nil {
		v.refuse(w, p)
		return
	}
	p.write(w)
}

// vend makes the request a job, and answers with what becomes of it.
func (d *Door) vend(ctx context.Context, v *vendor) {
	x := exchangeOf(ctx)
	asked, err := v.read(x)
	var out *submitOutput
	if err == nil {
		out, err = d.submitRequest(ctx, asked.request)
	}
	if err != nil {
		v.refuse(x.writer, problemOf(d.options.Logger, err))
		return
	}
	x.writer.Header().Set(jobHeader, out.Body.JobID)
	if out.Replayed != "" {
		x.writer.Header().Set("Idempotency-Replayed", out.Replayed)
	}
	if asked.stream {
		err = d.vendStream(ctx, v, out.Body.JobID, asked.usage)
	} else {
		err = d.vendWhole(ctx, v, out.Body.JobID)
	}
	if err != nil && ctx.Err() == nil {
		d.options.Logger.Warn("a vendor's client got no answer", "job_id", out.Body.JobID, "error", err)
	}
}

// asked is a request in a vendor's format.
type asked struct {
	request       onejob.Request
	stream, usage bool
}

// read reads the request.
func (v *vendor) read(x *exchange) (a asked, err error) {
	r, err := wire.ReadVendor(x.body)
	if err != nil {
		return a, err
	}
	provider, err := v.providerOf(r.Model)
	if err != nil {
		return a, err
	}
	key, err := v.key(x, r.Input)
	return asked{
		request: onejob.Request{Owner: x.principal.Owner, Key: key, Kind: v.Kind, Provider: provider, Fallbacks: slices.Clone(v.Fallbacks), Input: r.Input},
		stream:  r.Stream, usage: r.WithUsage,
	}, err
}

// providerOf returns the provider of the model. One that nobody is configured with would fail at
// every provider, and burn the key.
func (v *vendor) providerOf(model string) (string, error) {
	if p, ok := v.Models[model]; ok {
		return p, nil
	}
	if configured := v.model(v.Provider); model != "" && configured != "" && model != configured {
		return "", newProblem(notFound, "model %q is not configured at this door: use %q, or one of its models", onejob.Shorten(model, 100), configured)
	}
	return v.Provider, nil
}

// key is the key that the client sends, or one made of the input, where that is configured.
func (v *vendor) key(x *exchange, input []byte) (string, error) {
	if len(x.request.Header.Values(wire.KeyHeader)) > 0 || !v.deriveKeys {
		return idempotencyKey(x.request.Header)
	}
	canonical, err := onejob.CanonicalJSON("the body", input, onejob.Limits{}.OrDefault().Depth)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return "derived-" + hex.EncodeToString(sum[:]), nil
}

// refuse answers with the problem in the vendor's format. What would be refused again is not to
// be sent again by the SDK.
func (v *vendor) refuse(w http.ResponseWriter, p *Problem) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	again := p.Status == http.StatusTooManyRequests || p.Status == http.StatusRequestTimeout || p.Status == http.StatusServiceUnavailable
	w.Header().Set(retryHeader, strconv.FormatBool(again))
	w.Header().Set(problemHeader, p.Type)
	writeJSON(w, p.Status, v.Failure(wire.Failure{Status: p.Status, Code: p.Type[len(ProblemBase):], Message: p.Detail}))
}

// vendWhole answers with the result once it is there.
func (d *Door) vendWhole(ctx context.Context, v *vendor, jobID string) error {
	out, err := d.await(ctx, jobID, v.wait)
	x := exchangeOf(ctx)
	if err != nil {
		v.refuse(x.writer, problemOf(d.options.Logger, err))
		return err
	}
	if out.Body.Status != onejob.StatusSucceeded {
		f := unanswered(out.Body)
		x.writer.Header().Set(retryHeader, strconv.FormatBool(!out.Body.Status.Closed()))
		writeJSON(x.writer, f.Status, v.Failure(f))
		return nil
	}
	x.writer.Header().Set("Content-Type", "application/json")
	_, err = x.writer.Write(out.Body.Result)
	return err
}

// unanswered says why the job has no result: it failed, or takes longer than a client waits.
func unanswered(j job) wire.Failure {
	switch {
	case j.Error != nil:
		return wire.Failure{Status: http.StatusBadGateway, Code: string(j.Error.Code), Message: "job " + j.JobID + " failed: " + j.Error.Message}
	case j.Status.Closed():
		return wire.Failure{Status: http.StatusConflict, Code: "job_" + string(j.Status), Message: "job " + j.JobID + " is " + string(j.Status) + ": use a new key for a new intention"}
	}
	return wire.Failure{Status: http.StatusServiceUnavailable, Code: "job_" + string(j.Status), Message: "job " + j.JobID + " is still " + string(j.Status) + ": send the request again, with the same key"}
}

// vendStream answers with a stream, which says that the door is still there until the result is.
func (d *Door) vendStream(ctx context.Context, v *vendor, jobID string, withUsage bool) error {
	x := exchangeOf(ctx)
	changes, err := d.watch(x, jobID, byStream)
	if err != nil {
		v.refuse(x.writer, problemOf(d.options.Logger, err))
		return nil
	}
	defer changes.end()
	s := &stream{exchange: x, patience: d.options.Timeouts.Write}
	if err := s.begin(""); err != nil {
		return err
	}
	over := time.NewTimer(v.wait)
	defer over.Stop()
	ping := time.NewTicker(d.options.Timeouts.Ping)
	defer ping.Stop()
	for last := false; ; {
		found, err := d.job(ctx, jobID)
		if err != nil {
			return err
		}
		if found.Status.Closed() || last {
			return v.tell(s, found, withUsage)
		}
		if err := s.wait(ctx, changes.changed, over.C, ping.C, d.draining); err != nil {
			if ctx.Err() != nil || !errors.Is(err, errEnd) {
				return ignoreEnd(err)
			}
			last = true
		}
	}
}

// tell writes the result as the vendor's stream would, or the error.
func (v *vendor) tell(s *stream, j job, withUsage bool) error {
	if j.Status != onejob.StatusSucceeded {
		return s.vendorEvent(wire.Event{Name: v.FailedEvent, Data: v.Failure(unanswered(j))})
	}
	events, err := v.Stream(j.Result, withUsage)
	if err != nil {
		return errors.Join(err, s.vendorEvent(wire.Event{Name: v.FailedEvent, Data: v.Failure(wire.Failure{Status: http.StatusBadGateway, Code: "unreadable_result", Message: "the result of job " + j.JobID + " is no answer in this format"})}))
	}
	for _, e := range events {
		if err := s.vendorEvent(e); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) vendorEvent(e wire.Event) error {
	data, plain := e.Data.(string)
	text := []byte(data)
	if !plain {
		var err error
		if text, err = marshal(e.Data); err != nil {
			return err
		}
	}
	head := ""
	if e.Name != "" {
		head = "event: " + e.Name + "\n"
	}
	return s.write(slices.Concat([]byte(head+"data: "), text, []byte("\n\n")))
}
