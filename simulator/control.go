package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// control registers the control API.
func (s *Simulator) control() {
	s.mux.HandleFunc("GET /_simulator/executions", s.executions)
	s.mux.HandleFunc("GET /_simulator/totals", s.totals)
	s.mux.HandleFunc("GET /_simulator/await", s.await)
	s.mux.HandleFunc("POST /_simulator/release", s.release)
	s.mux.HandleFunc("GET /_simulator/deliveries", s.listDeliveries)
	s.mux.HandleFunc("POST /_simulator/plan", s.replacePlan)
	s.mux.HandleFunc("POST /_simulator/forget", s.forgetKeys)
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
	counts, _ := era.board.read(subject.String())
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
	counts, err := era.board.await(ctx, subject.String(), least)
	if err != nil {
		problem(w, http.StatusGatewayTimeout, fmt.Errorf("so far %s: %w", marshal(counts), err))
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

const mostPlanBytes = 4 << 20

func (s *Simulator) listDeliveries(w http.ResponseWriter, r *http.Request) {
	subject, err := readSubject(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, err)
		return
	}
	era, _ := s.current()
	writeJSON(w, era.deliveries.of(subject))
}

// forgetKeys forgets the replies kept under the query's key, or under all.
func (s *Simulator) forgetKeys(w http.ResponseWriter, r *http.Request) {
	era, _ := s.current()
	writeJSON(w, forgotten{Forgotten: era.kept.forget(r.URL.Query().Get("key"))})
}

type forgotten struct {
	Forgotten int `json:"forgotten"` // replies
}

func writeJSON(w http.ResponseWriter, value any) {
	reply{status: http.StatusOK, header: jsonHeader(), body: marshal(value)}.write(w)
}
