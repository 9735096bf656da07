package simulator

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/onejob/onejob/simulator/internal/wire"
)

// reply is what a client reads.
type reply struct {
	status int
	header map[string]string
	body   []byte
	events []wire.Event // in place of the body
}

type usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// What the simulator counts as usage.
const (
	bytesPerToken   = 4
	tokensPerAnswer = 16
)

// reply composes the call's reply. The same run gets the same bytes.
func (r *run) reply() reply {
	answer := reply{status: cmp.Or(r.Status, http.StatusOK), header: r.format.header(r.requestID())}
	switch {
	case answer.status >= http.StatusMultipleChoices || r.Error != nil:
		answer.body = r.format.failure(r, answer.status)
	default:
		answer.events = r.format.events(r)
		answer.body = r.format.body(r)
	}
	return r.shape(answer)
}

// shape gives an answer what the directives say of it.
func (r *run) shape(answer reply) reply {
	if answer.events != nil {
		answer.header["Content-Type"] = "text/event-stream; charset=utf-8"
	}
	if r.RetryAfter != "" {
		answer.header["Retry-After"] = string(r.RetryAfter)
	}
	if r.ClockSkew != 0 {
		answer.header["Date"] = skewedDate(r.ClockSkew)
	}
	maps.Copy(answer.header, r.Headers)
	if r.Body != nil {
		answer.body, answer.events = []byte(*r.Body), nil
	}
	return answer
}

// acceptance is the reply to a call that is executed later.
func (r *run) acceptance() reply {
	answer := r.format.accepted(r)
	answer.status = cmp.Or(r.Status, answer.status)
	if answer.status >= http.StatusMultipleChoices || r.Error != nil && r.Outcome != Failed {
		answer.body = r.format.failure(r, answer.status)
	}
	return r.shape(answer)
}

// location is the URL at which the call can be looked up.
func (r *run) location() string { return r.url + r.format.refPath() + r.id }

// requestID is the vendor's name for the HTTP request, beside the one for the call.
func (r *run) requestID() string { return "req_" + r.id }

func skewedDate(skew Duration) string {
	return time.Now().UTC().Add(time.Duration(skew)).Format(http.TimeFormat)
}

func jsonHeader() map[string]string { return map[string]string{"Content-Type": "application/json"} }

// usage is what the call used; nothing if the directives say so.
func (c call) usage() json.RawMessage {
	switch {
	case c.Usage == nil:
		return marshal(usage{InputTokens: 1 + c.length/bytesPerToken, OutputTokens: tokensPerAnswer})
	case string(c.Usage) == "null":
		return nil
	}
	return c.Usage
}

// result is the call's result, as a look-up tells it: the body of its reply, if that is
// JSON.
func (r *run) result() json.RawMessage {
	if r.Body != nil && json.Valid([]byte(*r.Body)) {
		return json.RawMessage(*r.Body)
	}
	return r.format.body(r)
}

// marshal encodes a value that has no way to fail.
func marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain structs of checked JSON
	}
	return text
}

func (a reply) replayed() reply {
	a.header = maps.Clone(a.header)
	a.header["Idempotent-Replayed"] = "true"
	return a
}

func (a reply) write(w http.ResponseWriter) {
	a.writeHead(w)
	_, _ = w.Write(a.text()) // a client that has left reads nothing
}

// text is the whole body.
func (a reply) text() []byte {
	if a.events == nil {
		return a.body
	}
	var text []byte
	for _, one := range a.events {
		text = append(text, one.Text()...)
	}
	return text
}

// writeHalf announces the whole body, writes half of it and hangs up.
func (a reply) writeHalf(w http.ResponseWriter) {
	w.Header().Set("Content-Length", strconv.Itoa(max(1, len(a.body))))
	a.writeHead(w)
	_, _ = w.Write(a.body[:len(a.body)/2])
	_ = http.NewResponseController(w).Flush()
	hangUp()
}

func (a reply) writeHead(w http.ResponseWriter) {
	if w.Header().Get("Content-Length") == "" && a.events == nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
}

// errorReply is the error in the words of a format.
func errorReply(f format, e wire.Error) reply {
	id := newID("req_")
	return reply{status: e.Status, header: f.header(id), body: f.envelope(e, id)}
}

// no is the reply to a request that was not even tried.
func no(f format, status int, err error) reply {
	return errorReply(f, wire.Error{Status: status, Message: err.Error()})
}

// refuse tells a client why its request was not even tried.
func refuse(w http.ResponseWriter, f format, status int, err error) { no(f, status, err).write(w) }

// problem is refuse for the control API.
func problem(w http.ResponseWriter, status int, err error) { refuse(w, plain{}, status, err) }
