package simulator

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// reply is what a client reads.
type reply struct {
	status int
	header map[string]string
	body   []byte
}

// replyBody is the body of a reply that the directives do not spell out.
type replyBody struct {
	Provider string          `json:"provider"`
	Job      string          `json:"job"`
	Attempt  int             `json:"attempt"`
	Echo     string          `json:"echo"` // SHA-256 of the input, in hex
	Answer   json.RawMessage `json:"answer,omitempty"`
	Usage    json.RawMessage `json:"usage,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
}

type replyError struct {
	Code    int    `json:"code"` // the status
	Message string `json:"message"`
}

type usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// reply composes the call's reply. The same call gets the same bytes.
func (c call) reply() reply {
	return c.shape(reply{status: http.StatusOK, header: jsonHeader()}, c.body)
}

// accepted is the reply to a call that is executed later.
func (r *run) accepted(req *http.Request) reply {
	answer := reply{status: http.StatusAccepted, header: jsonHeader()}
	answer.header["Location"] = "http://" + req.Host + strings.TrimSuffix(req.URL.EscapedPath(), "/") + "/ref/" + r.id
	return r.shape(answer, func(int) []byte {
		if r.LocationOnly {
			return marshal(outcome{Status: Queued})
		}
		return marshal(outcome{ID: r.id, Status: Queued})
	})
}

// shape gives an answer what the directives say of it.
func (c call) shape(answer reply, body func(status int) []byte) reply {
	if c.Status != 0 {
		answer.status = c.Status
	}
	if c.RetryAfter != "" {
		answer.header["Retry-After"] = string(c.RetryAfter)
	}
	if c.ClockSkew != 0 {
		answer.header["Date"] = skewedDate(c.ClockSkew)
	}
	maps.Copy(answer.header, c.Headers)
	if answer.body = body(answer.status); c.Body != nil {
		answer.body = []byte(*c.Body)
	}
	return answer
}

func skewedDate(skew Duration) string {
	return time.Now().UTC().Add(time.Duration(skew)).Format(http.TimeFormat)
}

func jsonHeader() map[string]string { return map[string]string{"Content-Type": "application/json"} }

func (c call) body(status int) []byte {
	body := replyBody{
		Provider: cmp.Or(c.provider, "simulator"), Job: c.job, Attempt: c.attempt, Echo: hex.EncodeToString(c.digest[:]),
		Answer: c.Answer, Usage: c.Usage, Error: c.Error,
	}
	if status >= http.StatusMultipleChoices {
		if body.Error == nil {
			body.Error = marshal(replyError{Code: status, Message: "simulated"})
		}
		return marshal(body)
	}
	if body.Answer == nil && body.Error == nil {
		body.Answer = json.RawMessage(`"done"`)
	}
	body.Usage = c.usage()
	return marshal(body)
}

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
func (c call) result() json.RawMessage {
	if c.Body != nil && json.Valid([]byte(*c.Body)) {
		return json.RawMessage(*c.Body)
	}
	return c.body(http.StatusOK)
}

// What the simulator counts as usage.
const (
	bytesPerToken   = 4
	tokensPerAnswer = 16
)

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
	_, _ = w.Write(a.body) // a client that has left reads nothing
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
	if w.Header().Get("Content-Length") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
}

// problem tells a client why its request was not even tried.
func problem(w http.ResponseWriter, status int, err error) {
	reply{
		status: status,
		header: jsonHeader(),
		body:   marshal(map[string]any{"error": replyError{Code: status, Message: err.Error()}}),
	}.write(w)
}
