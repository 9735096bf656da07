package simulator

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
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
	Error    *replyError     `json:"error,omitempty"`
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
	answer := reply{status: http.StatusOK, header: map[string]string{"Content-Type": "application/json"}}
	if c.Status != 0 {
		answer.status = c.Status
	}
	if c.RetryAfter != "" {
		answer.header["Retry-After"] = string(c.RetryAfter)
	}
	maps.Copy(answer.header, c.Headers)
	if answer.body = c.body(answer.status); c.Body != nil {
		answer.body = []byte(*c.Body)
	}
	return answer
}

func (c call) body(status int) []byte {
	body := replyBody{
		Provider: c.provider, Job: c.job, Attempt: c.attempt, Echo: hex.EncodeToString(c.digest[:]),
		Answer: c.Answer, Usage: c.Usage,
	}
	if body.Provider == "" {
		body.Provider = "simulator"
	}
	if status >= http.StatusMultipleChoices {
		body.Error = &replyError{Code: status, Message: "simulated"}
		return marshal(body)
	}
	if body.Answer == nil {
		body.Answer = json.RawMessage(`"done"`)
	}
	if body.Usage == nil {
		body.Usage = marshal(usage{InputTokens: 1 + c.length/bytesPerToken, OutputTokens: tokensPerAnswer})
	} else if string(body.Usage) == "null" {
		body.Usage = nil
	}
	return marshal(body)
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
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
}

// problem tells a client why its request was not even tried.
func problem(w http.ResponseWriter, status int, err error) {
	reply{
		status: status,
		header: map[string]string{"Content-Type": "application/json"},
		body:   marshal(map[string]any{"error": replyError{Code: status, Message: err.Error()}}),
	}.write(w)
}
