package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onejob/onejob/postgres"
)

// benchEntries is how many ledger entries, over two days, the benchmarks have:
//
//	go test ./postgres -run '^$' -bench BooksOfTwoDays -benchtime 1x -entries 1000000
var benchEntries = flag.Int("entries", 10_000, "ledger entries of the benchmarks of rebuild and audit")

// BenchmarkBooksOfTwoDays rebuilds two days of which nothing was consumed, rebuilds them
// again, and audits them.
func BenchmarkBooksOfTwoDays(b *testing.B) {
	for b.Loop() {
		r := newRig(b)
		r.manyEntries(b, *benchEntries)
		for _, part := range []struct {
			unit string
			do   func()
		}{
			{"s/rebuild-claiming", func() { r.rebuild(b, "") }},
			{"s/rebuild", func() { r.rebuild(b, "") }},
			{"s/audit", func() { r.mustAuditClean(b, postgres.AuditScope{}) }},
			{"s/audit-day", func() { r.mustAuditClean(b, postgres.AuditScope{First: secondDay, Last: secondDay}) }},
		} {
			began := time.Now()
			part.do()
			b.ReportMetric(time.Since(began).Seconds(), part.unit)
		}
	}
}

// mustAuditClean prints how long each check took.
func (r rig) mustAuditClean(b *testing.B, scope postgres.AuditScope) {
	b.Helper()
	began := time.Now()
	audit, err := r.store.Audit(b.Context(), scope, func(c postgres.AuditCheck) {
		fmt.Fprintf(os.Stderr, "%-24s %s\n", c.Name, time.Since(began).Round(time.Millisecond))
		began = time.Now()
	})
	if err != nil || audit.Differences > 0 {
		b.Fatalf("%v, %v", found(audit), err)
	}
}

// manyEntries makes entries of half as many jobs, over two days, with their messages and
// pending claims.
func (r rig) manyEntries(b *testing.B, entries int) {
	b.Helper()
	jobs := entries / 2
	r.workedJobs(b, jobs)
	r.subscribeUsage(b)
	for _, sql := range []string{`
		INSERT INTO outbox (message_key, owner_id, topic, payload)
		SELECT topic || ':' || n, 'owner-' || n % 3, topic, '{}'
		FROM generate_series(1, $1::int) n, unnest(ARRAY['attempt.cost', 'job.charge']) topic`, `
		INSERT INTO inbox (consumer_group, message_key, owner_id)
		SELECT s.consumer_group, m.message_key, m.owner_id FROM outbox m JOIN subscriptions s ON s.topic = m.topic WHERE $1::int > 0`, `
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices, recorded_by, created_at)
		SELECT e.topic || ':' || n, 'owner-' || n % 3, e.kind, (10 * n + 3 * n) * CASE e.kind WHEN 'cost' THEN i.price ELSE i.charge END, 'USD',
			a.job_id, a.id, a.provider, a.model, a.usage,
			(SELECT json_agg(json_build_object('id', (u.p).id, 'unit', u.unit, 'quantity', u.quantity::text, 'price', (u.p).price::text, 'charge', (u.p).charge::text))
			 FROM (VALUES ('cached_input', n, i), ('input', 9 * n, i), ('output', 3 * n - n % 5, o), ('reasoning', n % 5, o)) u (unit, quantity, p)
			 WHERE u.quantity > 0),
			'fixture', CASE WHEN n % 2 = 0 THEN '2026-11-28'::timestamptz ELSE '2026-11-29' END
		FROM generate_series(1, $1::int) n JOIN attempts a ON a.id = n
		JOIN prices i ON i.provider = a.provider AND i.model = a.model AND i.unit = 'input'
		JOIN prices o ON o.provider = a.provider AND o.model = a.model AND o.unit = 'output',
			(VALUES ('attempt.cost', 'cost'), ('job.charge', 'charge')) e (topic, kind)`} {
		r.fixtures(b, sql, jobs)
	}
	for _, table := range []string{"jobs", "attempts", "ledger", "outbox", "inbox"} {
		if _, err := r.hand.Exec(b.Context(), `VACUUM ANALYZE `+table); err != nil {
			b.Fatal(err)
		}
	}
}
