package simulator

import (
	"net/http"
	"net/url"
	"strings"
)

// runPath is where the plain format is spoken.
const runPath = "/v1/run"

// routes registers the providers' paths.
func (s *Simulator) routes() {
	s.mux.HandleFunc("POST "+runPath, s.take(plain{}))
	s.mux.HandleFunc("POST "+runPath+"/{name...}", s.postPlain)
	s.mux.HandleFunc("GET "+runPath+"/{name...}", s.getPlain)
	for _, name := range []string{"", "/{name}"} {
		s.openAIRoutes("/openai" + name)
		s.anthropicRoutes("/anthropic" + name)
	}
}

func (s *Simulator) getPlain(w http.ResponseWriter, r *http.Request) {
	if !readQuestion(r, r.URL.EscapedPath()) {
		http.NotFound(w, r)
		return
	}
	s.lookUp(plain{}, plainOutcome)(w, r)
}

func (s *Simulator) postPlain(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutSuffix(r.URL.EscapedPath(), "/cancel"); ok && readQuestion(r, path) {
		s.cancel(plain{}, plainOutcome, plainTooLate)(w, r)
		return
	}
	s.take(plain{})(w, r)
}

// readQuestion reads from a path which call is meant, and sets it as path values: of
// /v1/run[/NAME] and one of /ref (the headers or the query say which), /ref/REF,
// /key/KEY, /job/JOB/attempt/NUMBER. It returns false for another path.
func readQuestion(r *http.Request, escaped string) bool {
	parts := strings.Split(strings.TrimPrefix(escaped, runPath), "/")[1:]
	for n, part := range parts {
		parts[n], _ = url.PathUnescape(part) // the server has checked it
	}
	n := len(parts)
	switch {
	case n >= 4 && parts[n-4] == "job" && parts[n-2] == "attempt":
		r.SetPathValue("job", parts[n-3])
		r.SetPathValue("attempt", parts[n-1])
		n -= 4
	case n >= 2 && (parts[n-2] == "ref" || parts[n-2] == "key"):
		r.SetPathValue(parts[n-2], parts[n-1])
		n -= 2
	case n >= 1 && parts[n-1] == "ref":
		n--
	default:
		return false
	}
	r.SetPathValue("name", strings.Join(parts[:n], "/"))
	return true
}
