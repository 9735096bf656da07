package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// rounds is how often each race is run.
const rounds = 30

// together runs the calls at the same moment and returns when all have ended.
func together(calls ...func()) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for _, call := range calls {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			call()
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

// mustBeOneOf fails the test for an error that is not a refusal: a deadlock, say.
func mustBeOneOf(t *testing.T, err error, refusals ...error) {
	t.Helper()
	if err != nil && !slices.ContainsFunc(refusals, func(r error) bool { return errors.Is(err, r) }) {
		t.Errorf("not a refusal: %v", err)
	}
}

func TestTwoHundredSubmitsOfOneKeyAreOneJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		first := newJob(t)
		jobs, answers := make([]onejob.Job, 200), make([]postgres.Registered, 200)
		calls := make([]func(), 200)
		for i := range calls {
			jobs[i] = first
			jobs[i].ID = uuid.Must(uuid.NewV7()).String()
			calls[i] = func() {
				registered, err := r.store.InsertJobs(t.Context(), jobs[i])
				if err != nil {
					t.Error(err)
					return
				}
				answers[i] = registered[0]
			}
		}
		together(calls...)
		created := 0
		for _, a := range answers {
			if a.Created {
				created++
			}
			if a.Err != nil || a.Job.ID != answers[0].Job.ID {
				t.Errorf("%+v", a)
			}
		}
		if n := r.count(t, `SELECT count(*) FROM jobs WHERE owner_id = $1`, first.Owner); created != 1 || n != 1 {
			t.Errorf("%d callers created %d jobs", created, n)
		}
	}
}

// TestChunksInAnyOrderDoNotBlockEachOther: two callers that submit the same keys in
// opposite order would wait for each other.
func TestChunksInAnyOrderDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range rounds {
		jobs := make([]onejob.Job, 20)
		for i := range jobs {
			jobs[i] = newJob(t)
		}
		backward := slices.Clone(jobs)
		slices.Reverse(backward)
		insert := func(jobs []onejob.Job) func() {
			return func() {
				answers, err := r.store.InsertJobs(t.Context(), jobs...)
				if err != nil {
					t.Error(err)
				}
				for i, a := range answers {
					if a.Job.ID != jobs[i].ID {
						t.Errorf("answer %d is another job's", i)
					}
				}
			}
		}
		together(insert(jobs), insert(backward), insert(jobs), insert(backward))
	}
}

// finish makes a job whose two lanes both have an answer.
func (r rig) finish(t *testing.T, needle string) (first, second attempt) {
	t.Helper()
	first = r.started(t, hedged)
	second = r.start(t, first.job, 2, 1)
	for _, a := range []attempt{first, second} {
		r.record(t, a, a.success(`"`+needle+string(rune('0'+a.number))+`"`))
	}
	return first, second
}

func TestOfTwoAnswersAtOnceOneWinsAndTheOtherIsDiscarded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range rounds {
		first, second := r.finish(t, "needle-")
		completions := make([]postgres.Completion, 2)
		complete := func(a attempt) func() {
			return func() {
				var err error
				if completions[a.number-1], err = r.store.CompleteJobIfOpen(t.Context(), a.job.ID, a.number); err != nil {
					t.Error(err)
				}
			}
		}
		together(complete(first), complete(second))
		r.mustHaveOneWinner(t, first.job.ID, completions)
	}
	r.mustBeConsistent(t)
}

// TestAnswerThatCompletesWhileAnotherCommitsIsDiscarded is the same race, forced: each
// order once, with the first one's COMMIT held while the second waits for its lock.
func TestAnswerThatCompletesWhileAnotherCommitsIsDiscarded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		first, second := r.finish(t, "needle-")
		pair := [2]attempt{first, second}
		proxy := pgproxy.Start(t, r.url)
		hold := proxy.HoldBeforeCommit("completed_by")
		completions := make([]postgres.Completion, 2)
		var running sync.WaitGroup
		complete := func(store *postgres.Store, a attempt) {
			running.Go(func() {
				var err error
				if completions[a.number-1], err = store.CompleteJobIfOpen(t.Context(), a.job.ID, a.number); err != nil {
					t.Error(err)
				}
			})
		}
		complete(pgtest.Open(t, proxy.URL()), pair[order[0]])
		<-hold.Reached()
		complete(r.store, pair[order[1]])
		r.waitForALock(t)
		hold.Release()
		running.Wait()
		r.mustHaveOneWinner(t, first.job.ID, completions)
		if !completions[order[0]].Won {
			t.Errorf("the first to swap lost: %+v", completions)
		}
	}
}

// TestCompletionThatOvertakesTheRecordStillWins: the completion looks while the record
// of its own result holds the job's lock and has not committed.
func TestCompletionThatOvertakesTheRecordStillWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t)
	proxy := pgproxy.Start(t, r.url)
	hold := proxy.HoldBeforeCommit("recorded_by = $10")
	recorder := pgtest.Open(t, proxy.URL())
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := recorder.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.success(`1`)); err != nil {
			t.Error(err)
		}
	})
	<-hold.Reached()
	running.Go(func() {
		if c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1); err != nil || !c.Won {
			t.Errorf("an answer that nothing stood against was lost: %+v, %v", c, err)
		}
	})
	r.waitForALock(t)
	hold.Release()
	running.Wait()
	r.mustBeConsistent(t)
}

// TestClientThatFreezesInATransactionDoesNotHoldItsJob: a worker stops, as a suspended
// machine does, with the job's lock in hand.
func TestClientThatFreezesInATransactionDoesNotHoldItsJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := r.accepted(t)
	proxy := pgproxy.Start(t, r.url)
	frozen := proxy.HoldBefore("INSERT INTO attempts")
	sleeper, start := pgtest.Open(t, proxy.URL()), startOf(job, 1, 0)
	var running sync.WaitGroup
	running.Go(func() {
		_, err := sleeper.StartAttemptIfNoneLives(t.Context(), start)
		mustBe(t, err, onejob.ErrServerUnreachable)
	})
	<-frozen.Reached()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := r.store.AdoptAttempts(ctx, postgres.Adoption{JobID: job.ID, WorkflowID: job.WorkflowID, Fence: &postgres.Fence{Number: 1, Provider: "primary"}})
	if err != nil || len(p.Attempts) != 1 || p.Attempts[0].Reason != onejob.ReasonNeverStarted {
		t.Errorf("nobody else gets on with the job: %+v, %v", p, err)
	}
	frozen.Release()
	running.Wait()
	if started, err := sleeper.StartAttemptIfNoneLives(t.Context(), start); err != nil || started.Mine {
		t.Errorf("the sleeper may call for an attempt that is over: %+v, %v", started, err)
	}
}

// waitForALock waits until somebody in the database waits for a lock.
func (r rig) waitForALock(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for r.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
	}
}

func (r rig) mustHaveOneWinner(t *testing.T, jobID string, completions []postgres.Completion) {
	t.Helper()
	winner := slices.IndexFunc(completions, func(c postgres.Completion) bool { return c.Won })
	if winner < 0 || completions[1-winner].Won || !completions[1-winner].Raced || completions[winner].Raced {
		t.Fatalf("not one winner and one loser: %+v", completions)
	}
	loser := `"needle-` + string(rune('2'-winner)) + `"`
	hash := sha256.Sum256([]byte(loser))
	if n := r.count(t, `
		SELECT count(*) FROM discarded_results d JOIN attempts w ON w.id = d.winner_attempt_id JOIN attempts l ON l.id = d.attempt_id
		WHERE d.job_id = $1 AND w.number = $2 AND l.number = $3 AND d.sha256 = $4 AND d.bytes = $5 AND d.reason = 'slot_taken'`,
		jobID, winner+1, 2-winner, hash[:], len(loser)); n != 1 {
		t.Errorf("no trace of the loser")
	}
	if found := r.search(t, jobID, strings.Trim(loser, `"`)); len(found) > 0 {
		t.Errorf("the loser's payload is in %v", found)
	}
	if found := r.search(t, jobID, `needle-`+string(rune('1'+winner))); !slices.Equal(found, []string{"jobs.result"}) {
		t.Errorf("the winner's payload is in %v", found)
	}
}

// search returns the columns, of all tables, that hold the text for the job.
func (r rig) search(t *testing.T, jobID, text string) []string {
	t.Helper()
	rows, _ := r.hand.Query(t.Context(), `
		SELECT format('SELECT %L WHERE EXISTS (SELECT FROM %I WHERE %I = $1 AND position(convert_to($2, ''UTF8'') IN %s) > 0)',
			c.table_name || '.' || c.column_name, c.table_name, CASE c.table_name WHEN 'jobs' THEN 'id' ELSE 'job_id' END,
			CASE c.udt_name WHEN 'bytea' THEN quote_ident(c.column_name) ELSE format('convert_to(%I::text, ''UTF8'')', c.column_name) END)
		FROM information_schema.columns c
		WHERE c.table_schema = 'public' AND c.udt_name IN ('text', 'json', 'jsonb', 'bytea', 'varchar', '_text')
		  AND c.table_name IN (SELECT table_name FROM information_schema.columns WHERE column_name = 'job_id' UNION SELECT 'jobs')`) // CollectRows returns its error
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(statements) < 20 {
		t.Fatalf("%d columns to search, %v", len(statements), err)
	}
	rows, _ = r.hand.Query(t.Context(), strings.Join(statements, " UNION ALL "), jobID, text)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// race is calls that meet at a job, each with the refusals that it may hear.
type race struct {
	name    string
	prepare func(r rig, t *testing.T) attempt
	calls   []func(*testing.T, *postgres.Store, attempt) error
}

func races() []race {
	cancelJob := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.CancelJobIfOpen(t.Context(), a.job.ID, decision())
		return err
	}
	complete := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.CompleteJobIfOpen(t.Context(), a.job.ID, a.number)
		return err
	}
	startNext := func(number int) func(*testing.T, *postgres.Store, attempt) error {
		return func(t *testing.T, s *postgres.Store, a attempt) error {
			_, err := s.StartAttemptIfNoneLives(t.Context(), startOf(a.job, number, 0))
			return err
		}
	}
	resolve := func(as onejob.AttemptState, result string) func(*testing.T, *postgres.Store, attempt) error {
		return func(t *testing.T, s *postgres.Store, a attempt) error {
			_, err := s.ResolveAttemptIfLive(t.Context(), a.job.ID, a.number, as, json.RawMessage(result), decision())
			return err
		}
	}
	record := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.RecordOutcomeIfLive(t.Context(), a.job.ID, a.number, a.success(`"late"`))
		return err
	}
	silence := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.MarkUnknownIfLive(t.Context(), a.job.ID, a.number, postgres.Silence{Reason: onejob.ReasonTimeout})
		return err
	}
	adopt := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.AdoptAttempts(t.Context(), postgres.Adoption{JobID: a.job.ID, WorkflowID: a.job.WorkflowID, Fence: &postgres.Fence{Number: a.number + 1, Provider: "primary"}})
		return err
	}
	fail := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.FailJobIfNothingLives(t.Context(), a.job.ID, 0)
		return err
	}
	ask := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "primary", decision())
		return err
	}
	reconcile := func(t *testing.T, s *postgres.Store, a attempt) error {
		_, err := s.ClaimForReconcile(t.Context(), 0, 50)
		return err
	}
	started := func(r rig, t *testing.T) attempt { return r.started(t) }
	type calls = []func(*testing.T, *postgres.Store, attempt) error
	return []race{
		{"cancel the job, complete it", func(r rig, t *testing.T) attempt { return r.answered(t) }, calls{cancelJob, complete, complete, reconcile}},
		{"cancel the job, start its first attempt", func(r rig, t *testing.T) attempt { return attempt{job: r.accepted(t)} }, calls{cancelJob, startNext(1), startNext(1), adopt}},
		{"resolve, answer late, mark unknown", func(r rig, t *testing.T) attempt { return r.unknown(t) },
			calls{resolve(onejob.AttemptFailed, ""), resolve(onejob.AttemptSucceeded, `"found"`), record, silence, adopt}},
		{"answer, complete, cancel the job", started, calls{record, complete, cancelJob, silence}},
		{"ask for an attempt, fail the job, start the next", func(r rig, t *testing.T) attempt { return r.failing(t) },
			calls{ask, fail, startNext(2), startNext(3), reconcile}},
		{"fence, start", func(r rig, t *testing.T) attempt { return r.failing(t) }, calls{adopt, startNext(2), startNext(2), fail}},
	}
}

func TestWhateverTheOrderTheHistoryIsOne(t *testing.T) {
	t.Parallel()
	for _, race := range races() {
		t.Run(race.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for range rounds {
				a := race.prepare(r, t)
				meet := make([]func(), len(race.calls))
				for i, call := range race.calls {
					meet[i] = func() {
						mustBeOneOf(t, call(t, r.store, a), onejob.ErrJobClosed, onejob.ErrNothingToResolve, onejob.ErrAttemptUnresolved, onejob.ErrNotFound)
					}
				}
				together(meet...)
			}
			r.mustBeConsistent(t)
		})
	}
}
