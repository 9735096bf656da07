package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// settledBooks is a rig whose books are right: twelve jobs on two days, booked, consumed and,
// of owner-1, budgeted.
func settledBooks(t testing.TB) rig {
	t.Helper()
	r := newRig(t)
	r.workedJobs(t, 12)
	r.subscribeUsage(t)
	r.book(t, 1, 6, firstDay)
	r.book(t, 7, 12, secondDay)
	r.drain(t)
	r.fixtures(t, `
		WITH settled AS (
			INSERT INTO reservations (job_id, owner_id, month, currency, amount, state, settled, closed_at)
			SELECT job_id, owner_id, '2026-11-01', currency, 1, 'settled', amount, now() FROM ledger WHERE kind = 'charge' AND owner_id = 'owner-1'
			RETURNING settled)
		INSERT INTO budgets (owner_id, month, "limit", currency, spent) SELECT 'owner-1', '2026-11-01', 5, 'USD', sum(settled) FROM settled`)
	return r
}

func (r rig) audit(t testing.TB, scope postgres.AuditScope) postgres.Audit {
	t.Helper()
	audit, err := r.store.Audit(t.Context(), scope, nil)
	if err != nil {
		t.Fatal(err)
	}
	return audit
}

// found returns what the audit found, by check.
func found(audit postgres.Audit) map[string][]postgres.AuditFinding {
	by := map[string][]postgres.AuditFinding{}
	for _, c := range audit.Checks {
		if c.Count > 0 {
			by[c.Name] = c.Findings
		}
	}
	return by
}

// messageOf inserts a message and its claims, which are under way.
func messageOf(key, owner string) string {
	topic, _, _ := strings.Cut(key, ":")
	return fmt.Sprintf(`
		WITH m AS (INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ('%s', '%s', '%s', '{}') RETURNING *)
		INSERT INTO inbox (consumer_group, message_key, owner_id)
		SELECT s.consumer_group, m.message_key, m.owner_id FROM m JOIN subscriptions s ON s.topic = m.topic`, key, owner, topic)
}

// again inserts a copy of an entry under another source.
func again(source, from string) string {
	return fmt.Sprintf(`
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices, recorded_by)
		SELECT '%s', owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices, recorded_by
		FROM ledger WHERE source = '%s'`, source, from)
}

// claimed inserts a message that another group than the summaries' hears, and its claim.
func claimed(columns, values string) string {
	return fmt.Sprintf(`
		WITH m AS (INSERT INTO outbox (message_key, owner_id, topic, payload, created_at) VALUES ('job.failed:x', 'owner-2', 'job.failed', '{}', now() - interval '9 days'))
		INSERT INTO inbox (consumer_group, message_key, owner_id, %s) VALUES ('webhooks', 'job.failed:x', 'owner-2', %s)`, columns, values)
}

const job3 = "00000000-0000-7000-8000-000000000003"

// certified inserts a certification that has ended and settled, and its one call, which has a usage.
func certified(settled string) string {
	return fmt.Sprintf(`
		WITH run AS (
			INSERT INTO certification_runs (id, contract, contract_sha256, provider, model, adapter, requested_by, calls, must_pass, owner_id, estimate, currency, settled, state, report, finished_at)
			VALUES ('22222222-0000-7000-8000-000000000001', 'invoice', repeat('0', 64), 'nobody', 'm', 'a', 'x', 1, 1, 'onejob:certification', 9, 'USD', %s, 'failed', '{}', now()) RETURNING id)
		INSERT INTO certification_calls (id, run_id, model, adapter, case_name, repeat, try, execution, state, reason, usage, listen_until, finished_at)
		OVERRIDING SYSTEM VALUE SELECT 7, id, 'm', 'a', 'one', 1, 1, gen_random_uuid(), 'failed', 'rejected', '{"input_tokens": 5}', now(), now() FROM run`, settled)
}

// certificationCost inserts the cost of that call, which has no price.
func certificationCost(source, usage string) string {
	return fmt.Sprintf(`
		INSERT INTO ledger (source, owner_id, kind, amount, currency, certification_call, provider, model, usage, unpriced, recorded_by)
		VALUES ('%s', 'onejob:certification', 'cost', 0, 'XXX', 7, 'nobody', 'm', '%s', true, 'fixture')`, source, usage)
}

// Each case breaks one thing, past all that keeps hands from it. The audit must name that and
// nothing else.
var breaks = map[string]struct {
	sql  []string
	also []string          // checks that see it too
	ids  map[string]string // of the first finding, among others
}{
	"usage_daily": {
		sql: []string{`UPDATE usage_daily SET charged = charged * 2.4 WHERE owner_id = 'owner-1' AND day = '2026-11-28'`},
		ids: map[string]string{"owner": "owner-1", "day": "2026-11-28", "currency": "USD", "measure": "charged", "ratio": "2.4"},
	},
	"usage_by_model": {
		sql: []string{`UPDATE usage_by_model SET output_tokens = 0 WHERE owner_id = 'owner-1' AND day = '2026-11-28' AND provider = 'primary'`},
		ids: map[string]string{"owner": "owner-1", "provider": "primary", "model": "m-1", "measure": "output_tokens", "summary": "0", "ratio": "0"},
	},
	"usage_by_kind": {
		sql: []string{`INSERT INTO usage_by_kind (owner_id, day, currency, kind, credited) VALUES ('owner-1', '2026-11-28', 'EUR', 'ticket', 5)`},
		ids: map[string]string{"owner": "owner-1", "kind": "ticket", "currency": "EUR", "measure": "credited", "ledger": "0", "ratio": "inf"},
	},
	"jobs_without_charge": {
		sql: []string{`
			INSERT INTO jobs (id, owner_id, idempotency_key, workflow_id, kind, provider, input, fingerprint, fingerprint_version,
				timeout_ms, listen_for_ms, max_attempts, status, version, completed_by, result, finished_at)
			SELECT '11111111-0000-7000-8000-000000000003', owner_id, 'again', 'again', kind, provider, input, fingerprint, fingerprint_version,
				timeout_ms, listen_for_ms, max_attempts, status, version, completed_by, result, finished_at FROM jobs WHERE id = '` + job3 + `'`},
		ids: map[string]string{"job": "11111111-0000-7000-8000-000000000003", "owner": "owner-0"},
	},
	"charges_without_job": {
		sql: []string{`UPDATE jobs SET status = 'failed', completed_by = NULL, result = NULL, error = '{}' WHERE id = '` + job3 + `'`},
		ids: map[string]string{"job": job3, "owner": "owner-0"},
	},
	"jobs_charged_twice": {
		sql: []string{`DROP INDEX ledger_one_charge`, messageOf("job.charge:again", "owner-0"), again("job.charge:again", "job.charge:3")},
		ids: map[string]string{"job": job3, "owner": "owner-0"},
	},
	"attempts_without_cost": {
		sql: []string{`
			INSERT INTO attempts (id, job_id, number, provider, model, job_version, execution, state, reason, usage, recorded_by, finished_at)
			OVERRIDING SYSTEM VALUE VALUES (99, '` + job3 + `', 2, 'second', '', 0, gen_random_uuid(), 'failed', 'refused', '{"input_tokens": 5}', 'fixture', now())`},
		ids: map[string]string{"job": job3, "attempt": "2", "owner": "owner-0"},
	},
	"costs_without_attempt": {
		sql:  []string{`UPDATE attempts SET usage = '{"input_tokens": 1}' WHERE id = 3`},
		ids:  map[string]string{"job": job3, "attempt": "1", "owner": "owner-0"},
		also: []string{"charges_without_job"},
	},
	"attempts_costed_twice": {
		sql: []string{`DROP INDEX ledger_one_cost`, messageOf("attempt.cost:again", "owner-0"), again("attempt.cost:again", "attempt.cost:3")},
		ids: map[string]string{"job": job3, "owner": "owner-0"},
	},
	"calls_without_cost": {
		sql: []string{certified("0")},
		ids: map[string]string{"certification": "22222222-0000-7000-8000-000000000001", "call": "7", "owner": "onejob:certification"},
	},
	"costs_without_call": {
		sql:  []string{certified("0"), messageOf("certification.cost:7", "onejob:certification"), certificationCost("certification.cost:7", `{"input_tokens": 6}`)},
		also: []string{"unpriced_entries"},
		ids:  map[string]string{"certification": "22222222-0000-7000-8000-000000000001", "call": "7", "owner": "onejob:certification"},
	},
	"calls_costed_twice": {
		sql: []string{certified("0"), `DROP INDEX ledger_one_certification_cost`,
			messageOf("certification.cost:7", "onejob:certification"), certificationCost("certification.cost:7", `{"input_tokens": 5}`),
			messageOf("certification.cost:8", "onejob:certification"), certificationCost("certification.cost:8", `{"input_tokens": 5}`)},
		also: []string{"unpriced_entries"},
		ids:  map[string]string{"call": "7", "owner": "onejob:certification"},
	},
	"certification_settlements": {
		sql:  []string{certified("5"), messageOf("certification.cost:7", "onejob:certification"), certificationCost("certification.cost:7", `{"input_tokens": 5}`)},
		also: []string{"unpriced_entries"},
		ids:  map[string]string{"certification": "22222222-0000-7000-8000-000000000001", "settled": "5", "cost": "0"},
	},
	"amounts_by_snapshot": {
		sql: []string{`UPDATE ledger SET prices = replace(prices::text, '"quantity" : "27"', '"quantity" : "28"')::json WHERE source = 'job.charge:3'`},
		ids: map[string]string{"owner": "owner-0", "amount": "0.000000117"},
	},
	"amounts_by_usage": {
		sql: []string{
			`UPDATE ledger SET usage = (usage::jsonb || '{"images": 2}')::json WHERE source = 'attempt.cost:3'`,
			`UPDATE attempts SET usage = (usage::jsonb || '{"images": 2}')::json WHERE id = 3`,
		},
		ids:  map[string]string{"owner": "owner-0"},
		also: []string{"charges_without_job"},
	},
	"unpriced_entries": {
		sql: []string{
			`UPDATE ledger SET unpriced = true, usage = (usage::jsonb || '{"images": 2}')::json WHERE source = 'attempt.cost:3'`,
			`UPDATE attempts SET usage = (usage::jsonb || '{"images": 2}')::json WHERE id = 3`,
		},
		ids:  map[string]string{"owner": "owner-0", "job": job3, "provider": "second", "model": "m-0"},
		also: []string{"charges_without_job"},
	},
	"snapshots_by_prices": {
		sql: []string{`UPDATE prices SET charge = charge * 2 WHERE provider = 'second' AND model = 'm-0' AND unit = 'input'`},
		ids: map[string]string{"owner": "owner-0", "unit": "cached_input"},
	},
	"corrections": {
		sql: []string{messageOf("ledger.reversal:x", "owner-0"), `
			INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, corrects, recorded_by)
			SELECT 'ledger.reversal:x', owner_id, 'credit', amount / 2, currency, job_id, id, 'fixture' FROM ledger WHERE source = 'job.charge:3'`},
		ids: map[string]string{"owner": "owner-0"},
	},
	"accounts": {
		sql: []string{`ALTER TABLE ledger ALTER COLUMN to_account DROP EXPRESSION`, `UPDATE ledger SET to_account = 'owner:thief' WHERE source = 'job.charge:3'`},
		ids: map[string]string{"owner": "owner-0"},
	},
	"accounts_sum": {
		sql: []string{`ALTER TABLE ledger ALTER COLUMN to_account DROP EXPRESSION`, `ALTER TABLE ledger ALTER COLUMN to_account DROP NOT NULL`,
			`UPDATE ledger SET to_account = NULL WHERE source = 'job.charge:3'`},
		also: []string{"accounts"},
		ids:  map[string]string{"currency": "USD", "sum": "-0.000000117"},
	},
	"budgets": {
		sql: []string{`UPDATE budgets SET reserved = reserved + 1`},
		ids: map[string]string{"owner": "owner-1", "month": "2026-11", "counter": "reserved", "reservations": "0"},
	},
	"settlements": {
		sql: []string{`UPDATE reservations SET settled = settled + 1 WHERE id = (SELECT min(id) FROM reservations)`, `UPDATE budgets SET spent = spent + 1`},
		ids: map[string]string{"owner": "owner-1"},
	},
	"settlements, in another currency": {
		sql: []string{`UPDATE budgets SET currency = 'EUR'`, `UPDATE reservations SET currency = 'EUR'`},
		ids: map[string]string{"owner": "owner-1", "currency": "EUR", "charged_in": "USD"},
	},
	"reservations": {
		sql: []string{`INSERT INTO reservations (job_id, owner_id, month, currency, amount) SELECT job_id, owner_id, month, currency, 1 FROM reservations ORDER BY id LIMIT 1`, `UPDATE budgets SET reserved = reserved + 1`},
		ids: map[string]string{"owner": "owner-1", "open": "1", "status": "succeeded"},
	},
	"claims_of_nobody": {
		sql: []string{`ALTER DOMAIN onejob_name DROP CONSTRAINT onejob_name_not_blank`, `UPDATE inbox SET owner_id = ' ' WHERE consumer_group = 'usage_daily' AND message_key = 'job.charge:3'`},
		ids: map[string]string{"group": "usage_daily", "message": "job.charge:3"},
	},
	"claims_of_another_owner": {
		sql: []string{`UPDATE inbox SET owner_id = 'owner-2' WHERE consumer_group = 'usage_daily' AND message_key = 'job.charge:3'`},
		ids: map[string]string{"group": "usage_daily", "message": "job.charge:3", "owner": "owner-0", "claimed": "owner-2"},
	},
	"claims_without_message": {
		sql: []string{`INSERT INTO inbox (consumer_group, message_key, owner_id, state, done_at, done_by) VALUES ('usage_daily', 'job.charge:x', 'owner-2', 'done', now(), 'consumer')`},
		ids: map[string]string{"group": "usage_daily", "message": "job.charge:x", "owner": "owner-2"},
	},
	"messages_without_claim": {
		sql: []string{`DELETE FROM inbox WHERE consumer_group = 'usage_daily' AND message_key = 'job.charge:3'`},
		ids: map[string]string{"group": "usage_daily", "message": "job.charge:3", "owner": "owner-0"},
	},
	"claims_overdue": {
		sql: []string{claimed("next_try_at", "now() - interval '1 hour'")},
		ids: map[string]string{"group": "webhooks", "message": "job.failed:x", "owner": "owner-2"},
	},
	"claims_overdue, tried for ever": {
		sql: []string{claimed("next_try_at, tries", "now() + interval '1 hour', 3")},
		ids: map[string]string{"group": "webhooks", "message": "job.failed:x", "tries": "3"},
	},
	"claims_overdue, of a summary": {
		sql: []string{`UPDATE outbox SET created_at = now() - interval '1 hour' WHERE message_key = 'job.charge:3'`,
			`UPDATE inbox SET state = 'pending', done_at = NULL, done_by = NULL, next_try_at = now() - interval '1 hour' WHERE message_key = 'job.charge:3'`,
			`UPDATE usage_daily SET jobs = jobs - 1 WHERE owner_id = 'owner-0' AND day = '2026-11-28'`},
		also: []string{"usage_daily"},
		ids:  map[string]string{"message": "job.charge:3"},
	},
	"dead_letters": {
		sql: []string{claimed("state, tries", "'dead', 10")},
		ids: map[string]string{"group": "webhooks", "message": "job.failed:x", "owner": "owner-2", "tries": "10"},
	},
	"deliveries_overdue": {
		sql: []string{
			`INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ('job.failed:y', 'owner-2', 'job.failed', '{}')`,
			`DELETE FROM inbox WHERE message_key = 'job.failed:y'`, `DELETE FROM subscriptions WHERE topic = 'job.failed'`,
			`INSERT INTO webhook_deliveries (message_key, owner_id, url, next_try_at)
			 SELECT 'job.failed:y', 'owner-2', 'https://x.example', now() - interval '1 hour'`,
		},
		ids: map[string]string{"message": "job.failed:y", "owner": "owner-2", "tries": "0"},
	},
	"charges_without_job, of other usage": {
		sql:  []string{`UPDATE ledger SET usage = '{"input_tokens": 1}' WHERE source = 'job.charge:3'`},
		ids:  map[string]string{"job": job3, "attempt": "1"},
		also: []string{"amounts_by_usage"},
	},
	"snapshots_by_prices, superseded": {
		sql: []string{`INSERT INTO prices (provider, model, unit, price, charge, currency, valid_from, recorded_by, recorded_at)
			SELECT provider, model, unit, price * 3, charge * 3, currency, '2026-03-01', 'x', '2026-03-01' FROM prices WHERE model = 'm-1'`},
		ids: map[string]string{"unit": "cached_input"},
	},
	"snapshots_by_prices, with a price of the unit itself": {
		sql: []string{`INSERT INTO prices (provider, model, unit, price, charge, currency, valid_from, recorded_by, recorded_at)
			SELECT provider, model, 'cached_input', price, charge, currency, '2025-03-01', 'x', '2026-03-01' FROM prices WHERE model = 'm-1' AND unit = 'input'`},
		ids: map[string]string{"unit": "cached_input"},
	},
	"unpriced_with_price": {
		sql: []string{
			`UPDATE prices SET recorded_at = '2026-03-01'`,
			`UPDATE ledger SET prices = '[]', amount = 0, unpriced = true, currency = 'XXX' WHERE source = 'attempt.cost:3'`,
		},
		also: []string{"unpriced_entries", "usage_daily", "usage_by_model", "usage_by_kind"},
		ids:  map[string]string{"owner": "owner-0", "unit": "cached_input"},
	},
	"jobs_without_message": {
		sql: []string{`UPDATE jobs SET finished_at = now() WHERE id = '` + job3 + `'`},
		ids: map[string]string{"job": job3, "owner": "owner-0"},
	},
	"dead_deliveries": {
		sql: []string{`INSERT INTO webhook_deliveries (message_key, owner_id, url, state, tries, last_error) VALUES ('job.failed:x', 'owner-2', 'https://x', 'dead', 13, 'gone')`},
		ids: map[string]string{"message": "job.failed:x", "owner": "owner-2"},
	},
	"audit_failed": {
		sql: []string{`ALTER TABLE budgets RENAME COLUMN spent TO gone`},
		ids: map[string]string{"check": "budgets"},
	},
	"entries_without_message": {
		sql: []string{`INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by) VALUES ('ledger.topup:x', 'owner-2', 'topup', 5, 'USD', 'fixture')`},
		ids: map[string]string{"message": "ledger.topup:x", "owner": "owner-2"},
	},
	"messages_without_entry": {
		sql: []string{messageOf("ledger.topup:x", "owner-2")},
		ids: map[string]string{"message": "ledger.topup:x", "owner": "owner-2"},
	},
}

func TestAuditNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	for name, c := range breaks {
		t.Run(name, func(t *testing.T) {
			audit := r.auditBroken(t, c.sql)
			check, _, _ := strings.Cut(name, ",")
			names := slices.Sorted(maps.Keys(found(audit)))
			if want := slices.Sorted(slices.Values(append([]string{check}, c.also...))); !slices.Equal(names, want) {
				t.Fatalf("found %v, want %v: %v", names, want, found(audit))
			}
			first := found(audit)[check][0]
			for id, want := range c.ids {
				if first.IDs[id] != want {
					t.Errorf("%s is %q, want %q: %v, %s", id, first.IDs[id], want, first.IDs, first.Says)
				}
			}
			if first.Says == "" {
				t.Error("it says nothing")
			}
		})
	}
}

// auditBroken audits the books while they are broken, and leaves them as they were.
func (r rig) auditBroken(t *testing.T, sql []string) (audit postgres.Audit) {
	t.Helper()
	tx, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }() // what is broken stays nowhere
	for _, sql := range append([]string{`SET LOCAL session_replication_role = replica`}, sql...) {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if audit, err = postgres.AuditIn(t.Context(), tx, postgres.AuditScope{}, nil); err != nil {
		t.Fatal(err)
	}
	return audit
}

func TestEveryCheckOfTheAuditIsTested(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	audit := r.audit(t, postgres.AuditScope{})
	if audit.Differences > 0 || audit.Warnings > 0 || audit.WorstRatio != "1" {
		t.Errorf("books that are right have %d differences, %d warnings and a worst ratio of %s: %v", audit.Differences, audit.Warnings, audit.WorstRatio, found(audit))
	}
	for _, c := range audit.Checks {
		if _, tested := breaks[c.Name]; !tested {
			t.Errorf("nothing breaks what %s looks for", c.Name)
		}
	}
}

func TestAuditTakesTheTimeThatItNeeds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.limit(t, "o", 1)
	r.exec(t, `ALTER TABLE budgets RENAME TO fast_budgets`)
	r.exec(t, `CREATE VIEW budgets AS SELECT * FROM fast_budgets WHERE pg_sleep(0.6) IS NOT NULL`)
	r.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = ''500ms''', current_database()); END $$`)
	r.through(t, r.url).audit(t, postgres.AuditScope{})
}

func TestAuditTellsTheWorstRatio(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	r.fixtures(t, `UPDATE usage_daily SET charged = charged * 1.5, cost = cost * 0.25`)
	r.fixtures(t, `UPDATE usage_by_kind SET charged = charged * 2.4`)
	audit := r.audit(t, postgres.AuditScope{})
	if audit.WorstRatio != "0.25" || audit.Differences != 12+12 {
		t.Errorf("worst ratio %s, %d differences: %v", audit.WorstRatio, audit.Differences, found(audit))
	}
}

func TestAuditLooksAtItsScopeOnly(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	r.fixtures(t, `UPDATE usage_daily SET calls = 99 WHERE owner_id = 'owner-1' AND day = '2026-11-28'`)
	r.fixtures(t, `UPDATE budgets SET reserved = 7`)
	for name, c := range map[string]struct {
		scope postgres.AuditScope
		want  int
	}{
		"everything":    {postgres.AuditScope{}, 2},
		"its owner":     {postgres.AuditScope{Owner: "owner-1"}, 2},
		"another owner": {postgres.AuditScope{Owner: "owner-2"}, 0},
		"its day":       {postgres.AuditScope{First: firstDay, Last: firstDay}, 2},
		"another day":   {postgres.AuditScope{First: secondDay, Last: secondDay}, 1},
	} {
		if audit := r.audit(t, c.scope); audit.Differences != c.want {
			t.Errorf("%s: %d differences, want %d: %v", name, audit.Differences, c.want, found(audit))
		}
	}
}

func TestMessagesUnderWayAreNoDifference(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 12)
	r.subscribeUsage(t)
	r.book(t, 1, 6, firstDay)
	r.drain(t)
	r.book(t, 7, 12, firstDay)
	audit := r.audit(t, postgres.AuditScope{})
	if audit.Differences > 0 || len(audit.Groups) != 3 || audit.Groups[0].Pending != 12 || audit.Groups[0].Oldest == "" {
		t.Errorf("%v, %+v", found(audit), audit.Groups)
	}
	impatient := r.audit(t, postgres.AuditScope{Patience: time.Microsecond})
	if names := slices.Sorted(maps.Keys(found(impatient))); !slices.Equal(names, []string{"claims_overdue", "usage_by_kind", "usage_by_model", "usage_daily"}) {
		t.Errorf("an impatient audit found %v", names)
	}
}

// A message that is applied and stays pending is in the summary and is not under way.
func TestAppliedButUnclaimedMessagesAreSeenAtOnce(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	r.fixtures(t, `UPDATE inbox SET state = 'pending', done_at = NULL, done_by = NULL WHERE consumer_group = 'usage_daily' AND message_key = 'job.charge:3'`)
	audit := r.audit(t, postgres.AuditScope{})
	if names := slices.Sorted(maps.Keys(found(audit))); !slices.Equal(names, []string{"usage_daily"}) {
		t.Errorf("found %v", found(audit))
	}
}

func TestAuditKeepsOfAHundredThousandFindingsTheFirstHundred(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fixtures(t, `INSERT INTO inbox (consumer_group, message_key, owner_id, state, tries) SELECT 'webhooks', 'job.failed:' || n, 'o', 'dead', 1 FROM generate_series(1, 100000) n`)
	var seen []string
	audit, err := r.store.Audit(t.Context(), postgres.AuditScope{}, func(c postgres.AuditCheck) { seen = append(seen, c.Name) })
	if err != nil {
		t.Fatal(err)
	}
	if audit.Differences != 200000 || len(found(audit)["dead_letters"]) != 100 || len(seen) != len(audit.Checks) {
		t.Errorf("%d differences, %d kept, %d checks told", audit.Differences, len(found(audit)["dead_letters"]), len(seen))
	}
}

func TestEntriesThatRetentionMayHaveReachedNeedNoMessage(t *testing.T) {
	t.Parallel()
	r := settledBooks(t)
	if _, err := r.hand.Exec(t.Context(), `DELETE FROM outbox`); err != nil {
		t.Fatal(err)
	}
	if audit := r.audit(t, postgres.AuditScope{Retention: time.Microsecond}); audit.Differences > 0 {
		t.Errorf("found %v", found(audit))
	}
	if n := len(found(r.audit(t, postgres.AuditScope{}))["entries_without_message"]); n != 24 {
		t.Errorf("%d entries without message, want 24", n)
	}
}

// Whatever the store itself writes leaves books that agree.
func TestWhatTheStoreWritesLeavesBooksThatAgree(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	r.subscribeUsage(t)
	r.story(t)
	r.budgetedStory(t, rand.Text())
	before := r.audit(t, postgres.AuditScope{})
	r.drain(t)
	after := r.audit(t, postgres.AuditScope{})
	if before.Differences+after.Differences > 0 {
		t.Errorf("found %v, and after the consumers %v", found(before), found(after))
	}
	r.mustEqualLedger(t)
	for _, table := range []string{"budgets", "reservations", "ledger WHERE corrects IS NOT NULL", "usage_daily WHERE credited > 0"} {
		if r.count(t, `SELECT count(*) FROM `+table) == 0 {
			t.Errorf("nothing is in %s: the test shows less than it says", table)
		}
	}
}

// budgetedStory has jobs of an owner with a budget: one that is paid and taken back, one that
// is cancelled, one that is open; and a topup.
func (r rig) budgetedStory(t *testing.T, owner string) {
	t.Helper()
	r.limit(t, owner, 100)
	r.mustComplete(t, r.answered(t, of(owner)))
	r.accepted(t, of(owner))
	_, cancelled := r.store.CancelJobIfOpen(t.Context(), r.accepted(t, of(owner)).ID, decision())
	charge := r.count(t, `SELECT id FROM ledger WHERE kind = 'charge' AND owner_id = $1`, owner)
	_, reversed := r.store.ReverseEntryOnce(t.Context(), int64(charge), "ops", "a mistake")
	amount, parsed := onejob.ParseAmount("12.5")
	_, paid := r.store.BookDepositOnce(t.Context(), postgres.Deposit{Kind: "topup", Owner: owner, Key: "k", Amount: amount, Currency: "USD", By: "ops"})
	if err := errors.Join(cancelled, reversed, parsed, paid); err != nil {
		t.Fatal(err)
	}
}
