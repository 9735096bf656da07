package demo

import (
	"encoding/json"

	"github.com/onejob/onejob"
)

// moneyOnce reads the ledger of what was told before, and adds an owner who may spend next to
// nothing.
func (s *scene) moneyOnce() {
	clicked, given := s.jobID(doubleClickKey), s.jobID("given-up")
	s.say("%d clicks, in the ledger:", clickProcesses*clicksEach)
	s.claim("charges of the double click", s.entries(clicked, "charge"), 1)
	s.say("The job that was given up was done by two providers: each is a cost of ours, and the owner pays the winner.")
	s.claim("costs of the attempts", s.entries(given, "cost"), 2)
	s.claim("charges of the job", s.entries(given, "charge"), 1)
	s.topUpTwice()
	s.spendTooMuch()
	s.say("Everything above, faults and killed workers and all, is compared: ledger, summaries, budgets, claims and messages.")
	audit := s.onejob("audit", "--output", "json")
	s.claim("exit code of the audit", audit.code, 0)
	var found struct{ Differences int }
	s.decode(audit, &found)
	s.claim("differences that it found", found.Differences, 0)
}

func (s *scene) topUpTwice() {
	s.say("The owner pays 25 USD in. The message about it comes twice.")
	for range 2 {
		s.decode(s.onejob("topup", "--owner", s.owner("demo"), "--amount", "25", "--currency", "USD", "--key", "payment-1", "--output", "json"), &json.RawMessage{})
	}
	s.claim("topups in the ledger", row[int](s, `SELECT count(*)::int FROM ledger WHERE owner_id = $1 AND kind = 'topup'`, s.owner("demo")), 1)
}

// spendTooMuch has a budget refuse a job and, when it is raised, take it.
func (s *scene) spendTooMuch() {
	const saver, key = "saver", "dear"
	rows := func() int {
		return row[int](s, `SELECT count(*)::int FROM jobs WHERE owner_id = $1`, s.owner(saver))
	}
	s.say("Another owner may spend a cent, and wants what may come to more.")
	s.budget(saver, "0.01")
	order := []string{"start", "--owner", s.owner(saver), "--key", key, "--kind", "ticket", "--provider", "primary", "--input", doubleClickInput, "--output", "json"}
	refused := s.onejob(order...)
	s.say("%s", refused.stderr)
	s.claim("exit code", refused.code, 7)
	s.claim("rows under the owner", rows(), 0)
	s.say("The budget is raised. The same key again: it was not burned.")
	s.budget(saver, "1")
	var j onejob.Submitted
	s.decode(s.onejob(order...), &j)
	s.claim("the job's status", s.wait(j.JobID).Status, onejob.StatusSucceeded)
	s.claim("the budget is spent by exactly the charge, and nothing is reserved", row[bool](s, `
		SELECT b.reserved = 0 AND b.spent = l.amount FROM budgets b JOIN ledger l USING (owner_id) WHERE owner_id = $1 AND kind = 'charge'`, s.owner(saver)), true)
}

func (s *scene) budget(owner, limit string) {
	s.decode(s.onejob("budget", "set", "--owner", s.owner(owner), "--limit", limit, "--currency", "USD", "--output", "json"), &json.RawMessage{})
}

// jobID returns the job under the key of the story's owner.
func (s *scene) jobID(key string) string {
	return row[string](s, `SELECT id::text FROM jobs WHERE owner_id = $1 AND idempotency_key = $2`, s.owner("demo"), key)
}

// entries returns how many entries of the kind the ledger has about the job.
func (s *scene) entries(jobID, kind string) int {
	return row[int](s, `SELECT count(*)::int FROM ledger WHERE job_id = $1 AND kind = $2`, jobID, kind)
}
