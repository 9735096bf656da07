package simulator

import (
	"cmp"
	"net/http"

	"github.com/onejob/onejob/simulator/internal/wire"
)

// openAI is what OpenAI's formats have in common.
type openAI struct{ asked }

func (openAI) named(provider string) string { return cmp.Or(provider, "openai") }

func (openAI) refPath() string { return "/" }

func (openAI) modelNotFound() string { return "model_not_found" }

func (openAI) envelope(e wire.Error, _ string) []byte { return e.OpenAI() }

func (openAI) failure(r *run, status int) []byte {
	return r.withError(r.failing(status).OpenAI())
}

func (openAI) header(id string) map[string]string {
	header := jsonHeader()
	header["X-Request-Id"] = id
	return header
}

// chat is the format of /v1/chat/completions. It has no references.
type chat struct{ openAI }

func (chat) read(input []byte) (format, error) {
	a, err := readAsked(input)
	return chat{openAI{a}}, err
}

func (chat) idPrefix() string { return "chatcmpl-" }

func (chat) accepts(bool) bool { return false }

func (f chat) body(r *run) []byte { return f.answer(r).Chat() }

func (f chat) events(r *run) []wire.Event {
	if !f.Stream {
		return nil
	}
	events := f.answer(r).ChatEvents(f.StreamOptions.IncludeUsage)
	if r.StreamError == "" {
		return events
	}
	return broken(events, func(int) wire.Event { return r.streamError().ChatError() })
}

func (f chat) accepted(*run) reply { return reply{} } // it accepts nothing

// responses is the format of /v1/responses.
type responses struct{ openAI }

func (responses) read(input []byte) (format, error) {
	a, err := readAsked(input)
	return responses{openAI{a}}, err
}

func (responses) idPrefix() string { return "resp_" }

// accepts: a response in the background. One that is also streamed is answered by its
// stream.
func (f responses) accepts(bool) bool { return f.Background && !f.Stream }

func (f responses) body(r *run) []byte { return f.answer(r).Response() }

// answer is a response that failed or was cancelled, where the directives say so.
func (f responses) answer(r *run) wire.Answer {
	answer := f.asked.answer(r)
	answer.Status = responseWords[r.Outcome]
	if r.Outcome == Failed {
		failed := r.failing(http.StatusInternalServerError)
		answer.Error = &failed
	}
	return answer
}

func (f responses) events(r *run) []wire.Event {
	if !f.Stream {
		return nil
	}
	events := f.answer(r).ResponseEvents()
	if r.StreamError == "" {
		return events
	}
	return broken(events, r.streamError().ResponseError)
}

func (f responses) accepted(r *run) reply {
	answer := f.answer(r)
	answer.Status = wire.ResponseQueued
	return reply{status: http.StatusOK, header: f.header(r.requestID()), body: answer.Response()}
}

// responseWords are OpenAI's words for the states.
var responseWords = map[State]string{
	Queued: wire.ResponseQueued, Running: wire.ResponseInProgress,
	Succeeded: wire.ResponseCompleted, Failed: wire.ResponseFailed, Cancelled: wire.ResponseCancelled,
}

// seen is the response as a look-up sees it.
func (f responses) seen(s sight) reply {
	answer := f.answer(s.run)
	answer.Status, answer.Ended = responseWords[s.state], s.ended
	return reply{status: http.StatusOK, header: f.header(s.requestID()), body: answer.Response()}
}

// tooLate tells a response that can no longer be cancelled as it is. One that was never
// in the background could not be cancelled at any time.
func (f responses) tooLate(s sight) reply {
	if f.Background {
		return f.seen(s)
	}
	return no(f, http.StatusBadRequest, errForeground)
}

// streamError is the error by which a stream fails.
func (c call) streamError() wire.Error {
	return wire.Error{Code: c.StreamError, Message: "simulated"}
}
