package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/simulator"
)

const mixedJobs = 1000

// badDay is a provider at which a third of the calls goes wrong.
var badDay = simulator.Plan{
	Seed: 11, LostReply: 0.07, Late: 0.05, LateBy: simulator.Duration(1500 * time.Millisecond),
	Accept: 0.05, RunFor: simulator.Duration(300 * time.Millisecond), Status: map[int]float64{429: 0.04, 500: 0.05, 502: 0.02, 503: 0.04},
}

// TestBadDayChargesNobodyTwice submits each intent twice, kills a worker in the middle, and
// counts.
func TestBadDayChargesNobodyTwice(t *testing.T) {
	t.Parallel()
	s := newSystemOf(t, startProvider(t, badDay))
	first := s.startWorker()
	s.submitTwice()
	s.eventually("a third of the jobs is done", func() bool { return s.count(`SELECT count(*) FROM jobs WHERE status = 'succeeded'`) >= mixedJobs/3 })
	first.kill()
	s.startWorker()
	s.eventually("every job has its outcome, without a hand laid on it", func() bool {
		return s.count(`SELECT count(*) FROM jobs WHERE status IN ('succeeded', 'failed')`) == mixedJobs
	})

	if n := s.count(`SELECT count(*) FROM jobs WHERE status = 'failed' AND error ->> 'code' NOT IN ('refused', 'not_found')`); n != 0 {
		t.Errorf("%d jobs failed though the provider had done the work", n)
	}
	if n := s.count(`SELECT count(*) FROM decisions`); n != 0 {
		t.Errorf("%d decisions by people", n)
	}
	totals, err := s.sim.Totals(t.Context())
	if err != nil || totals.Repeated != 0 {
		t.Errorf("%d executions repeated within an attempt, %v", totals.Repeated, err)
	}
	results := s.count(`SELECT count(*) FROM attempts WHERE state = 'succeeded'`)
	if totals.Executions != results {
		t.Errorf("the provider executed %d calls, of which %d have a result", totals.Executions, results)
	}
	if n := s.count(`SELECT count(*) FROM (SELECT FROM attempts WHERE state = 'succeeded' GROUP BY job_id HAVING count(*) > 1) more`); n != 0 {
		t.Errorf("%d intents were executed more than once", n)
	}
}

// submitTwice submits so many intents, each twice at once.
func (s *system) submitTwice() {
	s.t.Helper()
	requests := make([]onejob.Request, mixedJobs)
	for i := range requests {
		requests[i] = onejob.Request{Owner: s.owner, Key: fmt.Sprint(i), Kind: "ticket", Provider: "askable", MaxAttempts: 20, Input: json.RawMessage(fmt.Sprintf(`{"n": %d}`, i))}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for _, err := range s.starter.SubmitAll(s.t.Context(), slices.Values(requests)) {
				if err != nil {
					s.t.Errorf("submit: %v", err)
				}
			}
		})
	}
	both.Wait()
}

// startProvider runs a simulated provider of the test's own, and returns its URL.
func startProvider(t *testing.T, plan simulator.Plan) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- simulator.New(simulator.Options{Plan: plan}).Run(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the provider: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

func (s *system) count(sql string) (n int) {
	s.t.Helper()
	if err := s.psql.QueryRow(s.t.Context(), sql).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}
