package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// fixtures writes rows as a hand with all rights would, past every trigger and foreign key.
func (r rig) fixtures(t testing.TB, sql string, args ...any) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// workedJobs inserts n jobs that succeeded, with one attempt each of the same number as id.
// They differ in owner, kind, provider, model and usage, and nothing is booked of them.
func (r rig) workedJobs(t testing.TB, n int) {
	t.Helper()
	r.fixtures(t, `
		INSERT INTO jobs (id, owner_id, idempotency_key, workflow_id, kind, provider, input, fingerprint, fingerprint_version,
			timeout_ms, listen_for_ms, max_attempts, status, version, completed_by, result, created_at, finished_at)
		SELECT `+fixtureJob+`, 'owner-' || n % 3, n, 'job/' || n, (ARRAY['invoice', 'ticket'])[1 + n % 2], 'primary', '{}',
			sha256(n::text::bytea), 1, 1000, 2000, 3, 'succeeded', 1, 1, '{}', '2026-11-01', '2026-11-01' FROM generate_series(1, $1::int) n`, n)
	r.fixtures(t, `
		INSERT INTO attempts (id, job_id, number, provider, model, job_version, execution, state, usage, recorded_by, started_at, finished_at, decided_at)
		OVERRIDING SYSTEM VALUE
		SELECT n, `+fixtureJob+`, 1, (ARRAY['primary', 'second'])[1 + n % 2], 'm-' || n % 3, 0, gen_random_uuid(), 'succeeded',
			json_build_object('input_tokens', 10 * n, 'cached_input_tokens', n, 'output_tokens', 3 * n, 'reasoning_tokens', n % 5),
			'fixture', '2026-11-01', '2026-11-01', '2026-11-01' FROM generate_series(1, $1::int) n`, n)
	r.fixtures(t, `
		INSERT INTO prices (provider, model, unit, price, charge, currency, valid_from, recorded_by)
		SELECT provider, 'm-' || m, unit, 0.000000001 * (m + 1), 0.000000003, 'USD', '2026-01-01', 'fixture'
		FROM unnest(ARRAY['primary', 'second']) provider, generate_series(0, 2) m, unnest(ARRAY['input', 'output']) unit`)
}

// fixtureJob is the id of the fixtures' job n.
const fixtureJob = `('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid`

// bookWork books the costs and charges of the fixtures' jobs from first to last, at the
// time, each with its message: in one transaction, and as the database demands of everybody.
func (r rig) bookWork(ctx context.Context, first, last int, at string) error {
	return pgx.BeginFunc(ctx, r.hand, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			INSERT INTO outbox (message_key, owner_id, topic, payload)
			SELECT topic || ':' || n, 'owner-' || n % 3, topic, '{}'
			FROM generate_series($1::int, $2::int) n, unnest(ARRAY['attempt.cost', 'job.charge']) topic`, first, last); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, bookedWork, first, last, at)
		return err
	})
}

// bookedWork prices the work as whoever books it must.
const bookedWork = `
	INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices, unpriced, recorded_by, created_at)
	SELECT e.topic || ':' || n, 'owner-' || n % 3, e.kind, CASE e.kind WHEN 'cost' THEN p.cost ELSE p.charge END, p.currency,
		a.job_id, a.id, a.provider, a.model, a.usage, p.prices, p.unpriced, 'fixture', $3::timestamptz
	FROM generate_series($1::int, $2::int) n JOIN attempts a ON a.id = n, LATERAL onejob_priced(a.provider, a.model, a.usage, a.started_at) p,
		(VALUES ('attempt.cost', 'cost'), ('job.charge', 'charge')) e (topic, kind)`

// subscribeUsage lets the consumers of the summaries hear what is booked from now on.
func (r rig) subscribeUsage(t testing.TB) {
	t.Helper()
	if _, err := r.hand.Exec(t.Context(), `
		INSERT INTO subscriptions (consumer_group, topic)
		SELECT g, topic FROM unnest($1::text[]) g, unnest(ARRAY['attempt.cost', 'certification.cost', 'job.charge', 'ledger.reversal']) topic`, usageGroups); err != nil {
		t.Fatal(err)
	}
}

var usageGroups = []string{"usage_daily", "usage_by_kind", "usage_by_model"}

// sums are exact, by measure.
type sums map[string]*big.Rat

func (s sums) add(measure string, x *big.Rat) {
	if s[measure] == nil {
		s[measure] = new(big.Rat)
	}
	s[measure].Add(s[measure], x)
}

// mustEqualLedger fails the test if a summary is not what the ledger's entries add up to,
// added up here one by one.
func (r rig) mustEqualLedger(t testing.TB) {
	t.Helper()
	for table, by := range map[string]string{"usage_daily": "''", "usage_by_model": "provider || '/' || model", "usage_by_kind": "kind"} {
		want, got := r.bookedBy(t, table), r.summed(t, table, by)
		for key := range maps.Keys(want) {
			if got[key] == nil {
				t.Errorf("%s has no row of %s", table, key)
			}
		}
		for key, measured := range got {
			for measure, x := range measured {
				y := want[key][measure]
				if y == nil {
					y = new(big.Rat)
				}
				if x.Cmp(y) != 0 {
					t.Errorf("%s, %s: %s is %s, the ledger has %s", table, key, measure, x.RatString(), y.RatString())
				}
			}
		}
	}
}

var measureNames = []string{"calls", "jobs", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost", "charged", "credited"}

func (r rig) summed(t testing.TB, table, by string) map[string]sums {
	t.Helper()
	all := map[string]sums{}
	rows, err := r.hand.Query(t.Context(), `SELECT owner_id || ' ' || day || ' ' || currency || ' ' || `+by+`, row_to_json(u)::text FROM `+table+` u`)
	if err != nil {
		t.Fatal(err)
	}
	var key, text string
	if _, err := pgx.ForEachRow(rows, []any{&key, &text}, func() error {
		var row map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			return err
		}
		all[key] = sums{}
		for _, measure := range measureNames {
			all[key].add(measure, rat(t, string(row[measure])))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func rat(t testing.TB, text string) *big.Rat {
	t.Helper()
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return x
}

// bookedEntry is what a spreadsheet would have of an entry.
type bookedEntry struct {
	Owner, Day, Currency, Model, JobKind, Kind, Amount, Usage, Corrects string
}

// bookedBy adds up the ledger as the summary does.
func (r rig) bookedBy(t testing.TB, table string) map[string]sums {
	t.Helper()
	rows, err := r.hand.Query(t.Context(), `
		SELECT l.owner_id, l.day::text, l.currency, coalesce(l.provider, '') || '/' || coalesce(l.model, ''), coalesce(j.kind, ''),
			l.kind, l.amount::text, coalesce(l.usage::text, '{}'), coalesce(c.kind, '')
		FROM ledger l LEFT JOIN jobs j ON j.id = l.job_id LEFT JOIN ledger c ON c.id = l.corrects`)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[bookedEntry])
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]sums{}
	for _, e := range entries {
		last := map[string]string{"usage_daily": "", "usage_by_model": e.Model, "usage_by_kind": e.JobKind}[table]
		e.addTo(t, all, fmt.Sprintf("%s %s %s %s", e.Owner, e.Day, e.Currency, last))
	}
	return all
}

func (e bookedEntry) addTo(t testing.TB, all map[string]sums, key string) {
	measure := map[string]string{"cost": "cost", "charge": "charged"}[e.Kind]
	if e.Kind == "credit" && e.Corrects == "charge" {
		measure = "credited"
	}
	if measure == "" {
		return
	}
	if all[key] == nil {
		all[key] = sums{}
	}
	s := all[key]
	s.add(measure, rat(t, e.Amount))
	switch {
	case e.Kind == "charge":
		s.add("jobs", big.NewRat(1, 1))
	case e.Kind == "cost" && e.Corrects == "":
		s.add("calls", big.NewRat(1, 1))
		var usage map[string]int64
		if err := json.Unmarshal([]byte(e.Usage), &usage); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(usage)) {
			s.add(name, big.NewRat(usage[name], 1))
		}
	}
}
