package simulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/onejob/onejob/simulator/internal/wire"
)

// anthropic is what Anthropic's formats have in common.
type anthropic struct{ asked }

func (anthropic) named(provider string) string { return cmp.Or(provider, "anthropic") }

func (anthropic) refPath() string { return "/" }

func (anthropic) modelNotFound() string { return "not_found_error" }

func (anthropic) envelope(e wire.Error, id string) []byte { return e.Anthropic(id) }

func (anthropic) failure(r *run, status int) []byte {
	return r.withError(r.failing(status).Anthropic(r.requestID()))
}

func (anthropic) header(id string) map[string]string {
	header := jsonHeader()
	header["Request-Id"] = id
	return header
}

// messages is the format of /v1/messages. It has no references.
type messages struct{ anthropic }

func (messages) read(input []byte) (format, error) {
	a, err := readAsked(input)
	return messages{anthropic{a}}, err
}

func (messages) idPrefix() string { return "msg_" }

func (messages) accepts(bool) bool { return false }

func (f messages) body(r *run) []byte { return f.answer(r).Message() }

func (f messages) events(r *run) []wire.Event {
	if !f.Stream {
		return nil
	}
	events := f.answer(r).MessageEvents()
	if r.StreamError == "" {
		return events
	}
	return broken(events, func(int) wire.Event { return r.streamError().MessageError(r.requestID()) })
}

func (messages) accepted(*run) reply { return reply{} } // it accepts nothing

// batches is the format of /v1/messages/batches: one call, whatever the number of its
// requests.
type batches struct {
	anthropic
	ids []string // of the requests
}

type batchAsked struct {
	Requests []struct {
		CustomID string `json:"custom_id"`
		Params   struct {
			asked
			Simulate json.RawMessage `json:"simulate"`
		} `json:"params"`
	} `json:"requests"`
}

func (batches) read(input []byte) (format, error) {
	var a batchAsked
	if err := json.Unmarshal(input, &a); err != nil {
		return nil, fmt.Errorf("the body cannot be read: %w", err)
	}
	if len(a.Requests) == 0 {
		return nil, errors.New("requests: at least one is needed")
	}
	read := batches{anthropic: anthropic{a.Requests[0].Params.asked}}
	for _, one := range a.Requests {
		read.ids = append(read.ids, one.CustomID)
	}
	return read, nil
}

// inside returns the directives of the first request.
func (batches) inside(input []byte) json.RawMessage {
	var a batchAsked
	if json.Unmarshal(input, &a) != nil || len(a.Requests) == 0 {
		return nil
	}
	return a.Requests[0].Params.Simulate
}

func (batches) idPrefix() string { return "msgbatch_" }

func (batches) accepts(bool) bool { return true }

func (batches) events(*run) []wire.Event { return nil }

func (f batches) accepted(r *run) reply {
	return reply{status: http.StatusOK, header: f.header(r.requestID()), body: f.batch(sight{run: r, state: Queued}).Object()}
}

func (f batches) batch(s sight) wire.Batch {
	batch := wire.Batch{ID: s.id, Requests: f.ids, Asked: s.made, Ended: s.ended, End: batchEnds[s.state], Results: s.location() + "/results"}
	if s.state == Cancelled {
		batch.Cancelled = s.ended
	}
	return batch
}

var batchEnds = map[State]wire.BatchEnd{Succeeded: wire.BatchSucceeded, Failed: wire.BatchErrored, Cancelled: wire.BatchCanceled}

// seen is the batch as a look-up sees it.
func (f batches) seen(s sight) reply { return f.told(f.batch(s).Object()) }

func (f batches) told(body []byte) reply {
	return reply{status: http.StatusOK, header: f.header(newID("req_")), body: body}
}

// canceling is a batch that was just cancelled: it has not ended yet.
func (f batches) canceling(s sight) reply {
	batch := f.batch(s)
	batch.Ended = time.Time{}
	return f.told(batch.Object())
}

func (f batches) tooLate(sight) reply { return no(f, http.StatusConflict, errDone) }

// results are there once the batch has ended.
func (f batches) results(s sight) reply {
	if !s.state.final() {
		return no(f, http.StatusNotFound, errNoResults)
	}
	answer := f.told(f.lines(s))
	answer.header["Content-Type"] = "application/x-jsonl"
	return answer
}

// body is the batch's result: the message of its requests.
func (f batches) body(r *run) []byte {
	answer := f.answer(r)
	answer.ID = "msg_" + r.id
	return answer.Message()
}

// lines are the results of a batch that has ended.
func (f batches) lines(s sight) []byte {
	answer := f.answer(s.run)
	answer.ID = "msg_" + s.id
	return f.batch(s).Lines(answer, s.failing(http.StatusBadRequest))
}
