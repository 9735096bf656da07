package simulator

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/onejob/onejob/simulator/internal/wire"
)

// plain is the format of /v1/run.
type plain struct{}

func (plain) read([]byte) (format, error)     { return plain{}, nil }
func (plain) named(provider string) string    { return provider }
func (plain) idPrefix() string                { return "run_" }
func (plain) refPath() string                 { return "/ref/" }
func (plain) model() string                   { return "" }
func (plain) modelNotFound() string           { return "" }
func (plain) inside([]byte) json.RawMessage   { return nil }
func (plain) accepts(directed bool) bool      { return directed }
func (plain) events(*run) []wire.Event        { return nil }
func (plain) header(string) map[string]string { return jsonHeader() }
func (plain) envelope(e wire.Error, _ string) []byte {
	return marshal(map[string]any{"error": plainError(e)})
}

// plainBody is a body in this format.
type plainBody struct {
	Provider string          `json:"provider"`
	Job      string          `json:"job"`
	Attempt  int             `json:"attempt"`
	Echo     string          `json:"echo"` // SHA-256 of the input, in hex
	Answer   json.RawMessage `json:"answer,omitempty"`
	Usage    json.RawMessage `json:"usage,omitempty"`
	Error    any             `json:"error,omitempty"`
}

type replyError struct {
	Code    any    `json:"code"` // the status, or what the directive says
	Message string `json:"message"`
}

func plainError(e wire.Error) replyError {
	if e.Code != "" {
		return replyError{Code: e.Code, Message: e.Message}
	}
	return replyError{Code: e.Status, Message: e.Message}
}

func (plain) head(r *run) plainBody {
	return plainBody{
		Provider: cmp.Or(r.provider, "simulator"), Job: r.job, Attempt: r.attempt, Echo: hex.EncodeToString(r.digest[:]),
		Answer: r.Answer,
	}
}

func (p plain) body(r *run) []byte {
	body := p.head(r)
	if body.Answer == nil {
		body.Answer = json.RawMessage(`"done"`)
	}
	body.Usage = r.usage()
	return marshal(body)
}

func (p plain) failure(r *run, status int) []byte {
	body := p.head(r)
	body.Error = plainError(r.failing(status))
	if r.Error != nil {
		body.Error = r.Error
	}
	if body.Usage = r.Usage; status < http.StatusMultipleChoices {
		body.Usage = r.usage()
	}
	return marshal(body)
}

func (plain) accepted(r *run) reply {
	answer := reply{status: http.StatusAccepted, header: jsonHeader()}
	answer.header["Location"] = r.location()
	told := outcome{ID: r.id, Status: Queued}
	if r.LocationOnly {
		told.ID = ""
	}
	answer.body = marshal(told)
	return answer
}

// plainOutcome tells a call of any format.
func plainOutcome(s sight) reply {
	return reply{status: http.StatusOK, header: jsonHeader(), body: marshal(s.outcome())}
}

func plainTooLate(s sight) reply {
	e := plainError(wire.Error{Status: http.StatusConflict, Message: errDone.Error()})
	body := marshal(map[string]any{"id": s.id, "status": s.state, "error": e})
	return reply{status: http.StatusConflict, header: jsonHeader(), body: body}
}
