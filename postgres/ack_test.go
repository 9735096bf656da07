package postgres_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// patience is what a test waits for what must happen.
const patience = 20 * time.Second

// transaction is one of the store's. Prepare makes what it works on, and returns the
// call and what must hold of the answer that its caller gets in the end.
type transaction struct {
	match   string // a statement in it
	prepare func(t *testing.T, r rig) (call func(*postgres.Store) error, check func(t *testing.T))
}

// transactions are all that the store commits.
func transactions() map[string]transaction {
	all := map[string]transaction{
		"insert jobs":        {"INSERT INTO jobs", insertsThree},
		"start attempt":      {"INSERT INTO attempts", startsAttempt},
		"mark running":       {"THEN 'running'", marksRunning},
		"mark unknown":       {"SET state = 'unknown'", marksUnknown},
		"record success":     {"recorded_by = $10", recordsSuccess},
		"record failure":     {"recorded_by = $10", recordsFailure},
		"record late":        {"INSERT INTO discarded_results", recordsLate},
		"complete":           {"SET status = 'succeeded'", completes},
		"discard":            {"INSERT INTO discarded_results", discards},
		"fail":               {"SET status = 'failed'", fails},
		"adopt":              {"'fence'", adopts},
		"claim to reconcile": {"SET reconcile_at", claims},
	}
	for name, d := range decisions() {
		all[name] = transaction{"INSERT INTO decisions", d.prepare}
	}
	return all
}

func TestLostAcknowledgementChangesNoAnswer(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	for name, x := range transactions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigAt(t, address)
			proxy := pgproxy.Start(t, address)
			call, check := x.prepare(t, r)
			swallowed := proxy.SwallowCommit(x.match)
			r.mustLoseOnce(t, proxy, call, swallowed)
			check(t)
		})
	}
	t.Cleanup(func() { newRigAt(t, address).mustBeConsistent(t) })
}

func TestTransactionThatNeverCommittedIsRepeated(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	for name, x := range transactions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRigAt(t, address)
			proxy := pgproxy.Start(t, address)
			call, check := x.prepare(t, r)
			r.mustLoseOnce(t, proxy, call, proxy.CutBeforeCommit(x.match))
			check(t)
		})
	}
	t.Cleanup(func() { newRigAt(t, address).mustBeConsistent(t) })
}

// mustLoseOnce makes the call twice through the proxy: as the fault strikes, which the
// caller must hear as a server that does not answer, and again, as the caller then does.
func (r rig) mustLoseOnce(t *testing.T, proxy *pgproxy.Proxy, call func(*postgres.Store) error, fault *pgproxy.Fault) {
	t.Helper()
	store := pgtest.Open(t, proxy.URL())
	mustBe(t, call(store), onejob.ErrServerUnreachable)
	select {
	case <-fault.Fired():
	case <-time.After(patience):
		t.Fatal("the fault did not strike")
	}
	if err := call(store); err != nil {
		t.Fatalf("the second time: %v", err)
	}
}

func insertsThree(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	jobs := []onejob.Job{newJob(t), newJob(t), newJob(t)}
	var answers []postgres.Registered
	call := func(s *postgres.Store) (err error) {
		answers, err = s.InsertJobs(t.Context(), jobs...)
		return err
	}
	return call, func(t *testing.T) {
		for i, a := range answers {
			if !a.Created || a.Err != nil || a.Job.ID != jobs[i].ID {
				t.Errorf("own insert read as somebody else's: %+v", a)
			}
		}
	}
}

func startsAttempt(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	s := startOf(r.accepted(t), 1, 0)
	var started postgres.Started
	call := func(store *postgres.Store) (err error) {
		started, err = store.StartAttemptIfNoneLives(t.Context(), s)
		return err
	}
	return call, func(t *testing.T) {
		if !started.Mine || string(started.Input) != `{"page": 1}` {
			t.Errorf("own attempt read as somebody else's: %+v", started)
		}
		other := s
		other.Execution = uuid.NewString()
		r.mustNotStart(t, "another execution", other)
		if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1`, s.JobID); n != 1 {
			t.Errorf("%d attempts", n)
		}
	}
}

func marksRunning(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.started(t)
	call := func(s *postgres.Store) error {
		_, err := s.MarkRunningIfStarting(t.Context(), a.job.ID, 1, "ref-1")
		return err
	}
	return call, func(t *testing.T) {
		if p := r.progress(t, a.job.ID); p.Attempts[0].State != onejob.AttemptRunning {
			t.Errorf("%+v", p)
		}
	}
}

func marksUnknown(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.started(t)
	var marked postgres.Recorded
	call := func(s *postgres.Store) (err error) {
		marked, err = s.MarkUnknownIfLive(t.Context(), a.job.ID, 1, postgres.Silence{Reason: onejob.ReasonTimeout})
		return err
	}
	return call, func(t *testing.T) {
		if p := r.progress(t, a.job.ID); marked.Attempt.State != onejob.AttemptUnknown || p.Status != onejob.StatusUnknown {
			t.Errorf("%+v, %+v", marked, p)
		}
	}
}

// recording is the call that records the outcome, and where its answer goes.
func recording(t *testing.T, a attempt, o postgres.Outcome) (func(*postgres.Store) error, *postgres.Recorded) {
	recorded := new(postgres.Recorded)
	return func(s *postgres.Store) (err error) {
		*recorded, err = s.RecordOutcomeIfLive(t.Context(), a.job.ID, a.number, o)
		return err
	}, recorded
}

func recordsSuccess(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.unknown(t)
	call, recorded := recording(t, a, a.success(`"mine"`))
	return call, func(t *testing.T) {
		if recorded.Late || !recorded.WasUnknown || recorded.Attempt.State != onejob.AttemptSucceeded || recorded.Attempt.Decided {
			t.Errorf("own answer read as a late one: %+v", *recorded)
		}
		if c, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1); err != nil || !c.Won {
			t.Errorf("it does not win: %+v, %v", c, err)
		}
	}
}

func recordsFailure(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.started(t)
	call, recorded := recording(t, a, a.failure())
	return call, func(t *testing.T) {
		if recorded.Late || recorded.Attempt.State != onejob.AttemptFailed {
			t.Errorf("own answer read as a late one: %+v", *recorded)
		}
	}
}

func recordsLate(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.unknown(t)
	if _, err := r.store.CancelAttemptIfLive(t.Context(), a.job.ID, 1, decision()); err != nil {
		t.Fatal(err)
	}
	call, recorded := recording(t, a, a.success(`"late"`))
	return call, func(t *testing.T) {
		if !recorded.Late || recorded.Attempt.State != onejob.AttemptCancelled || !recorded.Attempt.Discarded {
			t.Errorf("%+v", *recorded)
		}
		if n := r.count(t, `SELECT count(*) FROM discarded_results WHERE job_id = $1`, a.job.ID); n != 1 {
			t.Errorf("discarded %d times", n)
		}
	}
}

func completing(t *testing.T, a attempt) (func(*postgres.Store) error, *postgres.Completion) {
	completion := new(postgres.Completion)
	return func(s *postgres.Store) (err error) {
		*completion, err = s.CompleteJobIfOpen(t.Context(), a.job.ID, a.number)
		return err
	}, completion
}

func completes(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	call, c := completing(t, r.answered(t))
	return call, func(t *testing.T) {
		if !c.Won || c.Raced || c.Progress.CompletedBy != 1 || c.Progress.Version != 1 || c.Progress.Attempts[0].Discarded {
			t.Errorf("own win read as a loss: %+v", *c)
		}
	}
}

func discards(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	first := r.answered(t, hedged)
	second := r.start(t, first.job, 2, 1)
	r.record(t, second, second.success(`"slower"`))
	if c, err := r.store.CompleteJobIfOpen(t.Context(), first.job.ID, 1); err != nil || !c.Won {
		t.Fatalf("%+v, %v", c, err)
	}
	call, c := completing(t, second)
	return call, func(t *testing.T) {
		if c.Won || c.Progress.CompletedBy != 1 || !c.Progress.Attempts[1].Discarded {
			t.Errorf("%+v", *c)
		}
		if n := r.count(t, `SELECT count(*) FROM discarded_results WHERE job_id = $1`, first.job.ID); n != 1 {
			t.Errorf("discarded %d times", n)
		}
	}
}

func fails(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.failing(t)
	var p onejob.Progress
	call := func(s *postgres.Store) (err error) {
		p, err = s.FailJobIfNothingLives(t.Context(), a.job.ID, 0)
		return err
	}
	return call, func(t *testing.T) {
		if p.Status != onejob.StatusFailed || p.Error == nil || p.Version != 0 {
			t.Errorf("%+v", p)
		}
	}
}

func adopts(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a := r.started(t)
	var p onejob.Progress
	call := func(s *postgres.Store) (err error) {
		p, err = s.AdoptAttempts(t.Context(), postgres.Adoption{JobID: a.job.ID, WorkflowID: a.job.WorkflowID, Fence: &postgres.Fence{Number: 2, Provider: "second"}})
		return err
	}
	return call, func(t *testing.T) {
		if len(p.Attempts) != 2 || p.Status != onejob.StatusUnknown || p.Attempts[1].Reason != onejob.ReasonNeverStarted {
			t.Errorf("%+v", p)
		}
	}
}

// claims may be lost: the jobs have their turn again after the time that was asked for.
func claims(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	job := r.accepted(t)
	due := func() int {
		return r.count(t, `SELECT count(*) FROM jobs WHERE id = $1 AND reconcile_at > now() + interval '50 minutes'`, job.ID)
	}
	if _, err := r.hand.Exec(t.Context(), `UPDATE jobs SET reconcile_at = now() WHERE id = $1`, job.ID); err != nil {
		t.Fatal(err)
	}
	call := func(s *postgres.Store) error {
		_, err := s.ClaimForReconcile(t.Context(), time.Hour, 100)
		return err
	}
	return call, func(t *testing.T) {
		if due() != 1 {
			t.Error("its next turn is not put off")
		}
	}
}

// decided is a decision and the state that it makes of a job.
type decided struct {
	from   func(rig, *testing.T) attempt
	decide func(*testing.T, *postgres.Store, attempt, postgres.Decision) (onejob.Progress, error)
	holds  func(onejob.Progress) bool
}

func decisions() map[string]decided {
	unknown := func(r rig, t *testing.T) attempt { return r.unknown(t) }
	return map[string]decided{
		"request attempt": {func(r rig, t *testing.T) attempt { return r.failed(t) },
			func(t *testing.T, s *postgres.Store, a attempt, d postgres.Decision) (onejob.Progress, error) {
				return s.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", d)
			},
			func(p onejob.Progress) bool { return p.Version == 1 && p.Requested == "second" }},
		"cancel attempt": {unknown,
			func(t *testing.T, s *postgres.Store, a attempt, d postgres.Decision) (onejob.Progress, error) {
				return s.CancelAttemptIfLive(t.Context(), a.job.ID, 0, d)
			},
			func(p onejob.Progress) bool { return p.Attempts[0].State == onejob.AttemptCancelled }},
		"resolve attempt": {unknown,
			func(t *testing.T, s *postgres.Store, a attempt, d postgres.Decision) (onejob.Progress, error) {
				return s.ResolveAttemptIfLive(t.Context(), a.job.ID, 1, onejob.AttemptSucceeded, json.RawMessage(`1`), d)
			},
			func(p onejob.Progress) bool { return p.Attempts[0].State == onejob.AttemptSucceeded }},
		"cancel job": {unknown,
			func(t *testing.T, s *postgres.Store, a attempt, d postgres.Decision) (onejob.Progress, error) {
				return s.CancelJobIfOpen(t.Context(), a.job.ID, d)
			},
			func(p onejob.Progress) bool { return p.Version == 1 && p.Status == onejob.StatusCancelled }},
	}
}

func (d decided) prepare(t *testing.T, r rig) (func(*postgres.Store) error, func(*testing.T)) {
	a, who := d.from(r, t), decision()
	var p onejob.Progress
	call := func(s *postgres.Store) (err error) {
		p, err = d.decide(t, s, a, who)
		return err
	}
	return call, func(t *testing.T) {
		if !d.holds(p) {
			t.Errorf("own decision read as somebody else's: %+v", p)
		}
		if n := r.count(t, `SELECT count(*) FROM decisions WHERE token = $1`, who.Token); n != 1 {
			t.Errorf("decided %d times", n)
		}
	}
}

// TestServerThatInterruptsIsOneToAskAgain: whoever holds an answer repeats its record
// for as long as the error says that Postgres did not answer.
func TestServerThatInterruptsIsOneToAskAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t)
	for name, parameters := range map[string][2]string{
		"a statement timeout":      {"statement_timeout", "1"},
		"a lock timeout":           {"lock_timeout", "1"},
		"a server that only reads": {"default_transaction_read_only", "on"},
	} {
		release := r.lock(t, a.job.ID)
		store := pgtest.Open(t, withParameter(t, r.url, parameters[0], parameters[1]))
		_, err := store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.failure())
		if !errors.Is(err, onejob.ErrServerUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
		release()
	}
}

// lock locks the job's row until it is released.
func (r rig) lock(t *testing.T, jobID string) (release func()) {
	t.Helper()
	tx, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec(t.Context(), tx, `SELECT FROM jobs WHERE id = $1 FOR NO KEY UPDATE`, jobID); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
