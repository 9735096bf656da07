package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// rig is a store on a database of the test's own, and connections to the same database
// for statements as a hand in psql would write them.
type rig struct {
	url   string
	store *postgres.Store
	hand  *pgxpool.Pool
}

func newRig(t testing.TB) rig {
	t.Helper()
	return newRigAt(t, pgtest.URL(t))
}

// newRigAt makes the rig on the database at address, with room for many at once.
func newRigAt(t testing.TB, address string) rig {
	t.Helper()
	address = withParameter(t, address, "pool_max_conns", "16")
	hand, err := pgxpool.New(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hand.Close)
	return rig{url: address, store: pgtest.Open(t, address), hand: hand}
}

func withParameter(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// through returns the rig with a store on another URL of the same database.
func (r rig) through(t testing.TB, address string) rig {
	t.Helper()
	r.store = pgtest.Open(t, address)
	return r
}

func catalog() onejob.Catalog {
	times := onejob.ProviderDefaults{Timeout: 10 * time.Second, ListenFor: time.Minute}
	return onejob.Catalog{
		Kinds:     map[string]onejob.Kind{"invoice": {}},
		Providers: map[string]onejob.ProviderDefaults{"primary": times, "second": times},
	}
}

func request() onejob.Request {
	return onejob.Request{Owner: rand.Text(), Key: rand.Text(), Kind: "invoice", Provider: "primary",
		Fallbacks: []string{"second"}, Input: json.RawMessage(`{"page": 1}`)}
}

// newJob returns a job that nobody inserted yet, of a request that with may change.
func newJob(t testing.TB, with ...func(*onejob.Request)) onejob.Job {
	t.Helper()
	r := request()
	for _, change := range with {
		change(&r)
	}
	job, err := onejob.NewJob(r, catalog())
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func hedged(r *onejob.Request) { r.HedgeAfter = onejob.Duration(time.Second) }

// accepted inserts a new job.
func (r rig) accepted(t testing.TB, with ...func(*onejob.Request)) onejob.Job {
	t.Helper()
	job := newJob(t, with...)
	registered, err := r.store.InsertJobs(t.Context(), job)
	if err != nil || !registered[0].Created {
		t.Fatalf("insert: %+v, %v", registered, err)
	}
	return job
}

// attempt is an attempt as its execution knows it.
type attempt struct {
	job    onejob.Job
	number int
	token  string
}

// startOf returns the start of the job's attempt by an execution of its own.
func startOf(job onejob.Job, number, lane int) postgres.Start {
	return postgres.Start{JobID: job.ID, WorkflowID: job.WorkflowID, Number: number, Lane: lane, Provider: "primary", Execution: uuid.NewString()}
}

// start starts the job's attempt of that number.
func (r rig) start(t testing.TB, job onejob.Job, number, lane int) attempt {
	t.Helper()
	s := startOf(job, number, lane)
	started, err := r.store.StartAttemptIfNoneLives(t.Context(), s)
	if err != nil || !started.Mine {
		t.Fatalf("start attempt %d: %+v, %v", number, started, err)
	}
	return attempt{job: job, number: number, token: s.Execution}
}

// started inserts a new job and starts its first attempt.
func (r rig) started(t testing.TB, with ...func(*onejob.Request)) attempt {
	t.Helper()
	return r.start(t, r.accepted(t, with...), 1, 0)
}

func (a attempt) success(result string) postgres.Outcome {
	return postgres.Outcome{State: onejob.AttemptSucceeded, Result: json.RawMessage(result), RecordedBy: a.token, Usage: json.RawMessage(`{"input_tokens": 3}`)}
}

func (a attempt) failure() postgres.Outcome {
	return postgres.Outcome{State: onejob.AttemptFailed, Reason: onejob.ReasonRejected, Detail: "no", RecordedBy: a.token}
}

// record records the outcome, which must be the attempt's first.
func (r rig) record(t testing.TB, a attempt, o postgres.Outcome) {
	t.Helper()
	recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, a.number, o)
	if err != nil || recorded.Late || recorded.Attempt.State != o.State {
		t.Fatalf("record %s: %+v, %v", o.State, recorded, err)
	}
}

// answered inserts a new job whose first attempt has a result that was not decided on.
func (r rig) answered(t testing.TB, with ...func(*onejob.Request)) attempt {
	t.Helper()
	a := r.started(t, with...)
	r.record(t, a, a.success(`{"total": "12.50"}`))
	return a
}

// failing inserts a new job whose only attempt failed.
func (r rig) failing(t testing.TB) attempt {
	t.Helper()
	a := r.started(t)
	r.record(t, a, a.failure())
	return a
}

// unknown inserts a new job whose first attempt is unknown.
func (r rig) unknown(t testing.TB, with ...func(*onejob.Request)) attempt {
	t.Helper()
	a := r.started(t, with...)
	if _, err := r.store.MarkUnknownIfLive(t.Context(), a.job.ID, a.number, postgres.Silence{Reason: onejob.ReasonTimeout}); err != nil {
		t.Fatal(err)
	}
	return a
}

// succeeded inserts a new job that its first attempt completed.
func (r rig) succeeded(t testing.TB) attempt {
	t.Helper()
	a := r.answered(t)
	if c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, a.number); err != nil || !c.Won {
		t.Fatalf("complete: %+v, %v", c, err)
	}
	return a
}

// failed inserts a new job that failed.
func (r rig) failed(t testing.TB) attempt {
	t.Helper()
	a := r.failing(t)
	if p, err := r.store.FailJobIfNothingLives(t.Context(), a.job.ID, 0); err != nil || p.Status != onejob.StatusFailed {
		t.Fatalf("fail: %+v, %v", p, err)
	}
	return a
}

// cancelled inserts a new job and cancels it.
func (r rig) cancelled(t testing.TB) onejob.Job {
	t.Helper()
	job := r.accepted(t)
	if p, err := r.store.CancelJobIfOpen(t.Context(), job.ID, decision()); err != nil || p.Status != onejob.StatusCancelled {
		t.Fatalf("cancel: %+v, %v", p, err)
	}
	return job
}

// decision returns a decision of its own.
func decision() postgres.Decision {
	return postgres.Decision{By: "ops", Reason: "asked the provider", Token: rand.Text()}
}

// progress reads how far the job is, and changes nothing.
func (r rig) progress(t testing.TB, jobID string) onejob.Progress {
	t.Helper()
	job, err := r.store.Job(t.Context(), jobID)
	if err != nil {
		t.Fatal(err)
	}
	attempts, err := r.store.Attempts(t.Context(), jobID)
	if err != nil {
		t.Fatal(err)
	}
	return onejob.Progress{Status: job.Status, Version: job.Version, CompletedBy: job.CompletedBy, Requested: job.Requested, Error: job.Error, Attempts: attempts}
}

// count returns the single number that the query yields.
func (r rig) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := r.hand.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// contradictions are statements that find rows of a history that cannot have been.
var contradictions = []string{
	`SELECT j.id FROM jobs j JOIN attempts a ON a.job_id = j.id AND a.number = j.completed_by
	 WHERE a.state <> 'succeeded' OR a.decided_at IS NULL OR a.discarded_at IS NOT NULL`,
	`SELECT a.job_id FROM attempts a JOIN jobs j ON j.id = a.job_id
	 WHERE a.decided_at IS NOT NULL AND a.discarded_at IS NULL AND j.completed_by IS DISTINCT FROM a.number`,
	`SELECT job_id FROM attempts WHERE discarded_at IS NOT NULL AND id NOT IN (SELECT attempt_id FROM discarded_results)`,
	`SELECT job_id FROM attempts WHERE result IS NOT NULL AND (decided_at IS NOT NULL OR state <> 'succeeded')`,
	`SELECT j.id FROM jobs j WHERE j.status IN ('running', 'unknown')
	 AND (j.status = 'unknown') <> EXISTS (SELECT FROM attempts a WHERE a.job_id = j.id AND a.state = 'unknown')`,
	`SELECT j.id FROM jobs j JOIN attempts a ON a.job_id = j.id WHERE j.status IN ('failed', 'cancelled')
	 AND (a.state IN ('starting', 'running', 'unknown') OR a.state = 'succeeded' AND a.decided_at IS NULL)`,
	`SELECT job_id FROM attempts WHERE state IN ('starting', 'running', 'unknown') GROUP BY job_id, lane HAVING count(*) > 1`,
	`SELECT j.id FROM jobs j JOIN attempts a ON a.job_id = j.id WHERE j.status = 'accepted' AND a.reason IS DISTINCT FROM 'never_started'`,
	`SELECT j.id FROM jobs j WHERE (j.status = 'cancelled') <> (1 = (SELECT count(*) FROM decisions d WHERE d.job_id = j.id AND d.action = 'cancel-job' AND d.refused IS NULL))`,
	`SELECT j.id FROM jobs j JOIN attempts a ON a.job_id = j.id WHERE j.requested_provider IS NOT NULL AND a.state IN ('starting', 'running', 'unknown')`,
	`SELECT a.job_id FROM attempts a WHERE a.usage IS NOT NULL AND a.state IN ('succeeded', 'failed', 'cancelled')
	 AND 1 <> (SELECT count(*) FROM ledger l WHERE l.attempt_id = a.id AND l.kind = 'cost' AND l.usage::text = a.usage::text AND l.model = a.model)`,
	`SELECT l.job_id FROM ledger l JOIN attempts a ON a.id = l.attempt_id WHERE l.kind = 'cost' AND (a.usage IS NULL OR a.state NOT IN ('succeeded', 'failed', 'cancelled'))`,
	`SELECT j.id FROM jobs j WHERE (j.status = 'succeeded')::integer
	 <> (SELECT count(*) FROM ledger l JOIN attempts a ON a.id = l.attempt_id WHERE l.job_id = j.id AND l.kind = 'charge' AND a.number = j.completed_by)`,
	`SELECT l.job_id FROM ledger l WHERE NOT EXISTS (SELECT FROM outbox o WHERE o.message_key = l.source AND o.owner_id = l.owner_id)`,
	// Each version is a result, a cancel or an opening again after a failure, and a failed job failed once more.
	`SELECT j.id FROM jobs j LEFT JOIN outbox o ON split_part(o.message_key, ':', 2) = j.id::text AND o.topic IN ('job.succeeded', 'job.failed', 'job.cancelled')
	 GROUP BY j.id HAVING count(o.message_key) <> j.version + (j.status = 'failed')::integer`,
	`SELECT job_id FROM (SELECT DISTINCT ON (job_id) job_id, state, settled FROM reservations ORDER BY job_id, id DESC) r JOIN jobs j ON j.id = r.job_id
	 WHERE r.state <> CASE WHEN j.finished_at IS NULL THEN 'open' WHEN j.status = 'succeeded' THEN 'settled' ELSE 'released' END
	 OR r.settled IS DISTINCT FROM (SELECT amount FROM ledger l WHERE l.job_id = j.id AND l.kind = 'charge')`,
	`SELECT (SELECT min(job_id::text)::uuid FROM reservations r WHERE r.owner_id = b.owner_id) FROM budgets b
	 WHERE reserved <> (SELECT coalesce(sum(amount), 0) FROM reservations r WHERE (r.owner_id, r.month) = (b.owner_id, b.month) AND state = 'open')
	 OR spent <> (SELECT coalesce(sum(settled), 0) FROM reservations r WHERE (r.owner_id, r.month) = (b.owner_id, b.month))`,
	`SELECT d.job_id FROM discarded_results d WHERE d.winner_attempt_id IS NOT NULL
	 AND NOT EXISTS (SELECT FROM jobs j JOIN attempts w ON w.job_id = j.id AND w.number = j.completed_by WHERE j.id = d.job_id AND w.id = d.winner_attempt_id)`,
}

// mustBeConsistent fails the test if the rows contradict each other.
func (r rig) mustBeConsistent(t testing.TB) {
	t.Helper()
	for _, sql := range contradictions {
		rows, _ := r.hand.Query(context.WithoutCancel(t.Context()), sql) // CollectRows returns its error
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(jobs) > 0 {
			t.Errorf("jobs %v contradict themselves (%v): %s", slices.Compact(jobs), err, sql)
		}
	}
}

// result reads the job's result.
func (r rig) result(ctx context.Context, jobID string) (json.RawMessage, error) {
	job, _, err := r.store.JobWithAttempts(ctx, jobID)
	return job.Result, err
}
