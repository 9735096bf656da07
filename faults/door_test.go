package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/faults/clicks"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/simulator"
)

// openDoor starts `onejob serve` with the database at the URL. It is killed with the test.
func (s *system) openDoor(url string) *clicks.Instance {
	s.t.Helper()
	door, err := clicks.Start(s.t.Context(), s.t.Output(), []string{"DATABASE_URL=" + url, "ONEJOB_TASK_QUEUE=" + s.queue, "ONEJOB_CONFIG=" + s.config},
		command, "serve", "--listen", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(door.Kill)
	return door
}

// mustToken makes a token of the system's owner, who has a budget.
func (s *system) mustToken() string {
	s.t.Helper()
	store := pgtest.Open(s.t, s.url)
	limit := amount(s.t, enough)
	secret, token, err := api.NewToken(s.owner, onejob.RoleUser, "test", time.Hour)
	if err == nil {
		_, err = store.AddToken(s.t.Context(), token)
	}
	if err == nil {
		_, err = store.SetBudget(s.t.Context(), postgres.BudgetChange{Owner: s.owner, Limit: &limit, Currency: currency})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// TestDoorKilledUnderLoadLosesNoAcceptedJob: one of two instances is killed when it has committed a
// job and not answered. Its clients go to the other one, and get the same job there.
func TestDoorKilledUnderLoadLosesNoAcceptedJob(t *testing.T) {
	t.Parallel()
	const all, before = 60, 20
	s := newSystemOf(t, startProvider(t, simulator.Plan{}))
	token := s.mustToken()
	s.startWorker()
	victim, other := s.openDoor(s.proxy.URL()), s.openDoor(s.url)
	load := clicks.Load{
		Addresses: []string{victim.Address, other.Address}, Token: token, Key: "click-", Clients: 16, Clicks: all, PerSecond: 30, Again: true,
		Body: func(n int) []byte {
			return fmt.Appendf(nil, `{"kind": "ticket", "provider": "askable", "input": {"n": %d, "max_output_tokens": 16, "simulate": {}}}`, n)
		},
	}
	var report clicks.Report
	ended := make(chan error, 1)
	go func() {
		var err error
		report, err = load.Run(t.Context())
		ended <- err
	}()
	s.eventually("there is load", func() bool { return s.count(`SELECT count(*) FROM jobs`) >= before })
	committed := s.proxy.HoldAfterCommit(insertsJob)
	within(t, "the victim has committed a job and not answered", committed.Reached())
	victim.Kill()
	committed.Cut()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	lost, err := report.Lost(t.Context(), s.psql, s.owner)
	if err != nil || len(lost) != 0 || len(report.Accepted) != all {
		t.Errorf("%d clicks were accepted, of which are lost %v, %v", len(report.Accepted), lost, err)
	}
	if n := s.count(`SELECT count(*) FROM jobs`); n != all || len(report.Other) != 0 {
		t.Errorf("%d clicks are %d jobs; told of two are %v", all, n, report.Other)
	}
	if report.Resent() == 0 || report.Silent == 0 {
		t.Errorf("nobody noticed: %d clicks were sent again, %d requests had no answer", report.Resent(), report.Silent)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := clicks.AwaitEnds(ctx, s.psql, s.owner); err != nil {
		t.Fatalf("jobs are still open: %v", err)
	}
	if n := s.count(`SELECT count(*) FROM jobs WHERE status = 'succeeded'`); n != all {
		t.Errorf("%d of %d jobs succeeded", n, all)
	}
	s.mustHaveExecutedEachOnce()
	if err := clicks.AwaitApplied(ctx, s.psql); err != nil {
		t.Fatalf("messages are not applied: %v", err)
	}
	s.mustPassTheAudit()
}
