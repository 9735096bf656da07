package faults_test

import (
	"encoding/json"
	"math/big"

	"github.com/jackc/pgx/v5"
)

// mustEqualTheSheet reckons from what the attempts used and the price list, and compares that
// with all that onejob keeps: ledger, summaries, balances and budgets.
func (s *money) mustEqualTheSheet() {
	s.t.Helper()
	s.mustHaveSeenEverything()
	byOwner, byModel, byKind := s.reckon()
	s.mustEqual("the ledger", s.kept(ledgerLines, "owner_id"), byOwner)
	s.mustEqual("usage_daily", s.kept("usage_daily", "owner_id"), byOwner)
	s.mustEqual("usage_by_model", s.kept("usage_by_model", "owner_id || ' ' || provider || ' ' || model"), byModel)
	s.mustEqual("usage_by_kind", s.kept("usage_by_kind", "owner_id || ' ' || kind"), byKind)
	given := map[int]string{payer: topup, referrer: referralCredit}
	for i := range mixedOwners {
		charged := &byOwner.line(s.ownerOf(i)).charged
		s.mustOwn(i, new(big.Rat).Sub(rational("0"+given[i]), charged))
		if i < budgeted {
			s.mustHaveSpent(i, charged)
		}
	}
}

// mustHaveSeenEverything asserts that the day had what makes money difficult.
func (s *money) mustHaveSeenEverything() {
	s.t.Helper()
	for what, where := range map[string]string{
		"usage that nobody told":       `estimated`,
		"a failed call that cost":      `kind = 'cost' AND attempt_id IN (SELECT id FROM attempts WHERE state = 'failed')`,
		"a charge by the other model":  `kind = 'charge' AND model = 'm-small'`,
		"a part of the smallest price": `scale(trim_scale(amount)) = 12`,
	} {
		if s.count(`SELECT count(*) FROM ledger WHERE `+where) == 0 {
			s.t.Errorf("the ledger has nothing of this: %s", what)
		}
	}
}

// reckon reads nothing of what was booked.
func (s *money) reckon() (byOwner, byModel, byKind sheet) {
	s.t.Helper()
	byOwner, byModel, byKind = sheet{}, sheet{}, sheet{}
	var owner, kind, provider string
	var text []byte
	var won bool
	s.each(`SELECT j.owner_id, j.kind, a.provider, a.usage, a.number IS NOT DISTINCT FROM j.completed_by
		FROM attempts a JOIN jobs j ON j.id = a.job_id WHERE a.usage IS NOT NULL`, []any{&owner, &kind, &provider, &text, &won}, func() error {
		var used usage
		for _, l := range []*line{byOwner.line(owner), byModel.line(owner, provider, modelOf[provider]), byKind.line(owner, kind)} {
			if err := json.Unmarshal(text, &used); err != nil {
				return err
			}
			l.add(provider, used, won)
		}
		return nil
	})
	return byOwner, byModel, byKind
}

// kept adds up a table with the columns of a summary.
func (s *money) kept(table, about string) sheet {
	s.t.Helper()
	lines := sheet{}
	var key, cost, charged string
	var read line
	s.each(`SELECT `+about+`, sum(calls)::bigint, sum(jobs)::bigint, coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(cached_input_tokens), 0)::bigint,
			coalesce(sum(output_tokens), 0)::bigint, coalesce(sum(reasoning_tokens), 0)::bigint, sum(cost)::text, sum(charged)::text FROM `+table+` AS t GROUP BY 1`,
		[]any{&key, &read.calls, &read.jobs, &read.input, &read.cached, &read.output, &read.reasoning, &cost, &charged}, func() error {
			l := read
			l.cost, l.charged = *rational(cost), *rational(charged)
			lines[key] = &l
			return nil
		})
	return lines
}

// ledgerLines has the ledger's costs and charges in the columns of a summary.
const ledgerLines = `(
	SELECT owner_id, (kind = 'cost')::int AS calls, (kind = 'charge')::int AS jobs, u.*,
	       CASE kind WHEN 'cost' THEN amount ELSE 0 END AS cost, CASE kind WHEN 'charge' THEN amount ELSE 0 END AS charged
	FROM ledger, json_to_record(CASE kind WHEN 'cost' THEN usage ELSE '{}' END)
	     AS u (input_tokens bigint, cached_input_tokens bigint, output_tokens bigint, reasoning_tokens bigint)
	WHERE kind IN ('cost', 'charge'))`

func (s *money) each(sql string, into []any, row func() error) {
	s.t.Helper()
	rows, err := s.psql.Query(s.t.Context(), sql)
	if err == nil {
		_, err = pgx.ForEachRow(rows, into, row)
	}
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// mustOwn compares an owner's balance.
func (s *money) mustOwn(owner int, want *big.Rat) {
	s.t.Helper()
	balances, err := s.store.Balances(s.t.Context(), s.ownerOf(owner))
	if err != nil || len(balances) != 1 || balances[0].Currency != currency {
		s.t.Fatalf("the balances of owner %d are %v, %v", owner, balances, err)
	}
	if got := rational(balances[0].Balance.String()); got.Cmp(want) != 0 {
		s.t.Errorf("owner %d has %s, the sheet says %s", owner, got.FloatString(15), want.FloatString(15))
	}
}

// mustHaveSpent compares an owner's budget, of which nothing is reserved any more.
func (s *money) mustHaveSpent(owner int, want *big.Rat) {
	s.t.Helper()
	b, err := s.store.Budget(s.t.Context(), s.ownerOf(owner), "")
	if err != nil {
		s.t.Fatal(err)
	}
	if b.Reserved.Sign() != 0 || rational(b.Spent.String()).Cmp(want) != 0 {
		s.t.Errorf("of owner %d's budget %s is spent and %s reserved, the sheet says %s", owner, b.Spent, b.Reserved, want.FloatString(15))
	}
}
