package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// control registers the control API.
func (s *Simulator) control() {
	s.mux.HandleFunc("GET /_simulator/executions", s.executions)
	s.mux.HandleFunc("GET /_simulator/totals", s.totals)
	s.mux.HandleFunc("GET /_simulator/await", s.await)
	s.mux.HandleFunc("POST /_simulator/release", s.release)
	s.mux.HandleFunc("POST /_simulator/plan", s.replacePlan)
	s.mux.HandleFunc("POST /_simulator/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		w.WriteHeader(http.StatusNoContent)
	})
}

func (s *Simulator) executions(w http.ResponseWriter, r *http.Request) {
	subject, err := readSubject(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	era, _ := s.current()
	counts, _ := era.board.read(subject)
	writeJSON(w, counts)
}

func (s *Simulator) totals(w http.ResponseWriter, _ *http.Request) {
	era, _ := s.current()
	totals := era.board.readTotals()
	totals.InFlight = len(s.inFlight)
	writeJSON(w, totals)
}

// await answers once the subject's counts reach what the query asks for. A wait that
// ends before gets 504 with the counts as they are.
func (s *Simulator) await(w http.ResponseWriter, r *http.Request) {
	subject, least, timeout, err := readAwait(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	select {
	case s.waiters <- struct{}{}:
		defer func() { <-s.waiters }()
	default:
		problem(w, http.StatusServiceUnavailable, errors.New("too many requests wait"))
		return
	}
	era, _ := s.current()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	counts, err := era.board.await(ctx, subject, least)
	if err != nil {
		problem(w, http.StatusGatewayTimeout, fmt.Errorf("%d requests and %d executions so far: %w", counts.Requests, counts.Executions, err))
		return
	}
	writeJSON(w, counts)
}

func (s *Simulator) release(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		problem(w, http.StatusBadRequest, errors.New("name is missing"))
		return
	}
	era, _ := s.current()
	waiting, err := era.gates.release(name)
	if err != nil {
		problem(w, http.StatusInsufficientStorage, err)
		return
	}
	writeJSON(w, released{Released: waiting})
}

type released struct {
	Released int `json:"released"` // requests that were held
}

func (s *Simulator) replacePlan(w http.ResponseWriter, r *http.Request) {
	strict := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostPlanBytes))
	strict.DisallowUnknownFields()
	var plan Plan
	err := strict.Decode(&plan)
	if err == nil {
		err = plan.Check()
	}
	if err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	s.SetPlan(plan)
	w.WriteHeader(http.StatusNoContent)
}

const mostPlanBytes = 64 << 10

// readSubject reads whose counts a query means: job, job with attempt, or key.
func readSubject(query url.Values) (string, error) {
	job, key := query.Get("job"), query.Get("key")
	switch {
	case (job == "") == (key == ""):
		return "", errors.New("name a job or a key")
	case key != "":
		return ofKey(key), nil
	case query.Get("attempt") == "":
		return ofJob(job), nil
	}
	attempt, err := strconv.Atoi(query.Get("attempt"))
	return ofAttempt(job, attempt), err
}

func readAwait(query url.Values) (subject string, least Counts, timeout time.Duration, err error) {
	if subject, err = readSubject(query); err != nil {
		return
	}
	if least.Requests, err = readCount(query.Get("requests")); err != nil {
		return
	}
	if least.Executions, err = readCount(query.Get("executions")); err != nil {
		return
	}
	if least == (Counts{}) {
		err = errors.New("say how many requests or executions to wait for")
		return
	}
	timeout = defaultAwait
	if text := query.Get("timeout"); text != "" {
		timeout, err = time.ParseDuration(text)
	}
	return subject, least, min(timeout, longestAwait), err
}

func readCount(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	return strconv.Atoi(text)
}

func writeJSON(w http.ResponseWriter, value any) {
	reply{status: http.StatusOK, header: map[string]string{"Content-Type": "application/json"}, body: marshal(value)}.write(w)
}
