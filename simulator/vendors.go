package simulator

import (
	"io"
	"net/http"

	"github.com/onejob/onejob/simulator/internal/wire"
)

// models are those that a list tells. Every other is known, too, but for [unknownModel].
var models = []string{"m-large", "m-small"}

// openAIRoutes registers OpenAI's paths below a prefix, which is the base URL of its
// SDK without the final /v1.
func (s *Simulator) openAIRoutes(prefix string) {
	s.mux.HandleFunc("POST "+prefix+"/v1/chat/completions", s.take(chat{}))
	s.mux.HandleFunc("POST "+prefix+"/v1/responses", s.take(responses{}))
	s.mux.HandleFunc("GET "+prefix+"/v1/responses/{ref}", s.lookUp(responses{}, by(responses.seen)))
	s.mux.HandleFunc("POST "+prefix+"/v1/responses/{ref}/cancel", s.cancel(responses{}, by(responses.seen), by(responses.tooLate)))
	s.mux.HandleFunc("GET "+prefix+"/v1/models", tellModels(responses{}, wire.OpenAIModels))
	s.mux.HandleFunc("GET "+prefix+"/v1/models/{model...}", tellModel(responses{}, wire.OpenAIModel))
}

// anthropicRoutes registers Anthropic's paths below a prefix, which is the base URL of
// its SDK.
func (s *Simulator) anthropicRoutes(prefix string) {
	batch := prefix + "/v1/messages/batches/{ref}"
	s.mux.HandleFunc("POST "+prefix+"/v1/messages", s.take(messages{}))
	s.mux.HandleFunc("POST "+prefix+"/v1/messages/count_tokens", authorised(messages{}, countTokens))
	s.mux.HandleFunc("POST "+prefix+"/v1/messages/batches", s.take(batches{}))
	s.mux.HandleFunc("GET "+batch, s.lookUp(batches{}, by(batches.seen)))
	s.mux.HandleFunc("GET "+batch+"/results", s.lookUp(batches{}, by(batches.results)))
	s.mux.HandleFunc("POST "+batch+"/cancel", s.cancel(batches{}, by(batches.canceling), by(batches.tooLate)))
	s.mux.HandleFunc("GET "+prefix+"/v1/models", tellModels(messages{}, wire.AnthropicModels))
	s.mux.HandleFunc("GET "+prefix+"/v1/models/{model...}", tellModel(messages{}, wire.AnthropicModel))
}

func tellModels(f format, worded func([]string) []byte) http.HandlerFunc {
	return authorised(f, func(w http.ResponseWriter, r *http.Request) {
		directed(f, r, worded(models)).write(w)
	})
}

func tellModel(f format, worded func(string) []byte) http.HandlerFunc {
	return authorised(f, func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("model")
		if unknownModel(id) {
			errorReply(f, wire.Error{Status: http.StatusNotFound, Code: f.modelNotFound(), Message: errUnknownModel.Error()}).write(w)
			return
		}
		directed(f, r, worded(id)).write(w)
	})
}

func countTokens(w http.ResponseWriter, r *http.Request) {
	input, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostInputBytes))
	if err != nil {
		refuse(w, messages{}, http.StatusBadRequest, err)
		return
	}
	directed(messages{}, r, wire.TokenCount(int64(1+len(input)/bytesPerToken))).write(w)
}

// directed shapes an answer that is about no call by the directives in the header.
func directed(f format, r *http.Request, body []byte) reply {
	d, err := readDirectives(r.Header, nil, plain{})
	if err != nil {
		return no(f, http.StatusBadRequest, err)
	}
	one := &run{id: newID(""), call: call{format: f, directives: d}}
	answer := reply{status: http.StatusOK, header: f.header(one.requestID()), body: body}
	if d.Status >= http.StatusMultipleChoices {
		answer.status, answer.body = d.Status, f.failure(one, d.Status)
	}
	return one.shape(answer)
}
