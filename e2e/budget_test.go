package e2e

import (
	"errors"
	"testing"

	"github.com/onejob/onejob"
)

// budget sets what the owner may spend in this month; a call of primary is paid with 5.
func (s *system) budget(limit int) {
	s.t.Helper()
	for _, sql := range []string{
		`INSERT INTO prices (provider, unit, price, charge, currency, valid_from, recorded_by) VALUES ('primary', 'call', 3, 5, 'USD', '2026-01-01', 'test') ON CONFLICT DO NOTHING`,
		`INSERT INTO budgets (owner_id, month, currency) VALUES ('` + s.owner + `', date_trunc('month', now() AT TIME ZONE 'UTC'), 'USD') ON CONFLICT DO NOTHING`,
	} {
		if _, err := s.conn().Exec(s.t.Context(), sql); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.conn().Exec(s.t.Context(), `UPDATE budgets SET "limit" = $1`, limit); err != nil {
		s.t.Fatal(err)
	}
}

func TestStartOverBudgetIsRefusedAtEveryDoorAndBurnsNoKey(t *testing.T) {
	s := newSystem(t)
	s.startWorker()
	s.budget(4)
	r := s.request("k", "")
	id := onejob.WorkflowID(r.Owner, r.Key)
	s.startByCLI(id, s.text(r))
	if got := s.failureType(id); got != "BudgetExceeded" {
		t.Errorf("the run failed with %s", got)
	}
	if _, err := s.submitByUpdate(r); !errors.Is(err, onejob.ErrBudgetExceeded) {
		t.Errorf("the update got %v", err)
	}
	if _, err := s.starter.Submit(t.Context(), r); !errors.Is(err, onejob.ErrBudgetExceeded) {
		t.Errorf("the starter got %v", err)
	}
	if n := s.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs were stored", n)
	}
	s.awaitRunClosed(id)
	s.budget(5)
	s.wait(s.submit(r).JobID)
	if n := s.count(`SELECT count(*) FROM budgets WHERE reserved = 0 AND spent = 5`); n != 1 {
		t.Error("the budget was not settled with the charge")
	}
}
