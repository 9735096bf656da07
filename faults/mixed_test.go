package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/simulator"
)

const (
	mixedJobs   = 1000
	mixedOwners = 12
)

// badDay is a provider at which a third of the calls goes wrong.
var badDay = simulator.Plan{
	Seed: 11, LostReply: 0.07, Late: 0.05, LateBy: simulator.Duration(1500 * time.Millisecond),
	Accept: 0.05, RunFor: simulator.Duration(300 * time.Millisecond), Status: map[int]float64{429: 0.04, 500: 0.05, 502: 0.02, 503: 0.04},
}

// TestBadDayChargesNobodyTwice submits each intent twice, kills workers at random moments,
// delivers every message three times more, and reckons all of it anew.
func TestBadDayChargesNobodyTwice(t *testing.T) {
	t.Parallel()
	s := newMoneySystem(t, startProvider(t, badDay))
	workers := []*process{s.startWorker(), s.startWorker()}
	s.submitUntilTheBudgetsAreRaised()
	s.killAtRandom(workers)
	s.eventually("every job has its outcome, without a hand laid on it", func() bool { return s.ended() == mixedJobs })

	s.mustHaveExecutedEachOnce()
	s.deliverThreeTimes()
	s.mustPassTheAudit()
	s.mustEqualTheSheet()
	s.mustHaveTold()
}

func (s *system) ended() int {
	return s.count(`SELECT count(*) FROM jobs WHERE status IN ('succeeded', 'failed')`)
}

// mustHaveExecutedEachOnce counts at the provider.
func (s *system) mustHaveExecutedEachOnce() {
	s.t.Helper()
	if n := s.count(`SELECT count(*) FROM jobs WHERE status = 'failed' AND error ->> 'code' NOT IN ('refused', 'not_found', 'rejected')`); n != 0 {
		s.t.Errorf("%d jobs failed though the provider had done the work", n)
	}
	if n := s.count(`SELECT count(*) FROM decisions`); n != 0 {
		s.t.Errorf("%d decisions by people", n)
	}
	totals, err := s.sim.Totals(s.t.Context())
	if err != nil || totals.Repeated != 0 {
		s.t.Errorf("%d executions repeated within an attempt, %v", totals.Repeated, err)
	}
	results := s.count(`SELECT count(*) FROM attempts WHERE state = 'succeeded'`)
	if totals.Executions != results {
		s.t.Errorf("the provider executed %d calls, of which %d have a result", totals.Executions, results)
	}
	if n := s.count(`SELECT count(*) FROM (SELECT FROM attempts WHERE state = 'succeeded' GROUP BY job_id HAVING count(*) > 1) more`); n != 0 {
		s.t.Errorf("%d intents were executed more than once", n)
	}
}

// submitUntilTheBudgetsAreRaised submits all intents, and those that a budget refused once
// more when there is money: their keys are not burned.
func (s *money) submitUntilTheBudgetsAreRaised() {
	s.t.Helper()
	requests := make([]onejob.Request, mixedJobs)
	for i := range requests {
		requests[i] = s.intent(i)
	}
	refused := s.submitTwice(requests)
	if n := s.count(`SELECT count(*) FROM jobs`); len(refused) == 0 || n < mixedJobs-len(refused) {
		s.t.Errorf("%d intents were refused and %d taken", len(refused), n)
	}
	s.setBudgets(enough)
	again := slices.DeleteFunc(requests, func(r onejob.Request) bool { return !refused[r.Key] })
	if still := s.submitTwice(again); len(still) != 0 {
		s.t.Errorf("%d intents were refused within the budget", len(still))
	}
}

// submitTwice submits each intent twice at once, and returns the keys that a budget refused.
func (s *system) submitTwice(requests []onejob.Request) (refused map[string]bool) {
	s.t.Helper()
	var refusedTo [2]map[string]bool
	var both sync.WaitGroup
	for i := range refusedTo {
		both.Go(func() { refusedTo[i] = s.submitAll(requests) })
	}
	both.Wait()
	maps.Copy(refusedTo[0], refusedTo[1])
	return refusedTo[0]
}

func (s *system) submitAll(requests []onejob.Request) map[string]bool {
	refused, i := map[string]bool{}, 0
	for _, err := range s.starter.SubmitAll(s.t.Context(), slices.Values(requests)) {
		if errors.Is(err, onejob.ErrBudgetExceeded) {
			refused[requests[i].Key] = true
		} else if err != nil {
			s.t.Errorf("submit: %v", err)
		}
		i++
	}
	return refused
}

// killAtRandom kills one of the workers and starts another in its place, three times. Each
// time messages are under way, some of them in the hands of the dead, and are rebuilt from.
func (s *money) killAtRandom(workers []*process) {
	s.t.Helper()
	const kills, apart = 3, 250
	draw := rand.New(rand.NewPCG(uint64(badDay.Seed), kills))
	for kill := range kills {
		moment, victim := kill*apart+draw.IntN(apart), draw.IntN(len(workers))
		s.eventually(fmt.Sprintf("%d jobs have their outcome", moment), func() bool { return s.ended() >= moment })
		workers[victim].kill()
		s.rebuild("")
		workers[victim] = s.startWorker()
		s.rebuild("")
	}
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
