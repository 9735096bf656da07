package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

func TestReservationIsKeptUntilTheOutcomeAndSettledWithTheCharge(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 100)
	a := r.unknown(t, of(owner))
	r.mustHaveBudget(t, owner, "6", "0")
	r.record(t, a, using(a.success(`1`), 30)) // more than was reckoned with: booked in full
	r.mustHaveBudget(t, owner, "6", "0")
	r.mustComplete(t, a)
	r.mustComplete(t, a)
	r.mustHaveBudget(t, owner, "0", "60")
	r.mustBeLate(t, a, using(a.success(`1`), 30))
	r.mustHaveBudget(t, owner, "0", "60")
	r.mustBeConsistent(t)
}

func TestJobThatEndsWithoutAChargeReleasesItsReservationOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 100)
	unlaunched := r.accepted(t, of(owner))
	failing := r.started(t, of(owner))
	r.record(t, failing, using(failing.failure(), 5))
	r.mustHaveBudget(t, owner, "12", "0")
	d := decision()
	for range 2 {
		if _, err := r.store.CancelJobIfOpen(t.Context(), unlaunched.ID, d); err != nil {
			t.Fatal(err)
		}
		if _, err := r.store.FailJobIfNothingLives(t.Context(), failing.job.ID, 0); err != nil {
			t.Fatal(err)
		}
	}
	r.mustHaveBudget(t, owner, "0", "0") // a budget counts charges, not what calls cost us
	r.mustBeConsistent(t)
}

func TestReopenedJobReservesAgainOrStaysFailed(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, reckoned)
	a := r.started(t, of(owner))
	r.record(t, a, a.failure())
	if _, err := r.store.FailJobIfNothingLives(t.Context(), a.job.ID, 0); err != nil {
		t.Fatal(err)
	}
	other := r.accepted(t, of(owner))
	refused := decision()
	_, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", refused)
	mustBe(t, err, onejob.ErrBudgetExceeded)
	if p := r.progress(t, a.job.ID); p.Status != onejob.StatusFailed || p.Version != 0 {
		t.Fatalf("the refused job is %s at version %d", p.Status, p.Version)
	}
	r.mustHaveBudget(t, owner, "6", "0")
	if _, err := r.store.CancelJobIfOpen(t.Context(), other.ID, decision()); err != nil {
		t.Fatal(err)
	}
	_, err = r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", refused)
	mustBe(t, err, onejob.ErrBudgetExceeded) // told again it is refused again, whatever has become free
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "primary", decision()); err != nil {
		t.Fatal(err)
	}
	r.mustHaveBudget(t, owner, "6", "0")
	again := r.start(t, a.job, 2, 0)
	r.record(t, again, using(again.success(`1`), 3))
	r.mustComplete(t, again)
	r.mustHaveBudget(t, owner, "0", "6")
	r.mustBeConsistent(t)
}

func TestBudgetsMixNoCurrencies(t *testing.T) {
	t.Parallel()
	t.Run("a provider priced in another currency is not asked", func(t *testing.T) {
		t.Parallel()
		r, a := newRigOfTwoCurrencies(t)
		d := decision()
		for range 2 {
			_, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "abroad", d)
			if mustBe(t, err, onejob.ErrInvalidRequest); err == nil || !strings.Contains(err.Error(), "is priced in EUR and job "+a.job.ID+" reserved in USD") {
				t.Errorf("refused with %v", err)
			}
		}
		if p := r.progress(t, a.job.ID); p.Status != onejob.StatusRunning {
			t.Errorf("the job is %s", p.Status)
		}
	})
	t.Run("a charge in another currency settles nothing, and the audit says so", func(t *testing.T) {
		t.Parallel()
		r, a := newRigOfTwoCurrencies(t)
		if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "later", decision()); err != nil {
			t.Fatal(err)
		}
		r.exec(t, inEuros, "later") // since it was asked for
		s := startOf(a.job, 2, 0)
		s.Provider = "later"
		if _, err := r.store.StartAttemptIfNoneLives(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		again := attempt{job: a.job, number: 2, token: s.Execution}
		r.record(t, again, using(again.success(`1`), 3))
		r.mustComplete(t, again)
		r.mustHaveBudget(t, a.job.Owner, "0", "0")
		settlements := found(r.audit(t, postgres.AuditScope{}))["settlements"]
		if len(settlements) != 1 || settlements[0].IDs["charged_in"] != "EUR" || settlements[0].IDs["currency"] != "USD" {
			t.Errorf("the audit finds %+v", settlements)
		}
	})
	t.Run("a job is not reopened into a budget in another currency", func(t *testing.T) {
		t.Parallel()
		r, a := newRigOfTwoCurrencies(t)
		if _, err := r.store.FailJobIfNothingLives(t.Context(), a.job.ID, 0); err != nil {
			t.Fatal(err)
		}
		r.fixtures(t, `UPDATE budgets SET month = '2026-01-01'`)
		r.fixtures(t, `UPDATE reservations SET month = '2026-01-01'`)
		r.exec(t, `INSERT INTO budgets (owner_id, month, "limit", currency) VALUES ($1, `+thisMonth+`, 100, 'EUR')`, a.job.Owner)
		_, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", decision())
		if mustBe(t, err, onejob.ErrInvalidRequest); err == nil || !strings.Contains(err.Error(), "is in EUR and job "+a.job.ID+" reserves in USD") {
			t.Errorf("refused with %v", err)
		}
		if p := r.progress(t, a.job.ID); p.Status != onejob.StatusFailed {
			t.Errorf("the job is %s", p.Status)
		}
		r.mustHaveBudget(t, a.job.Owner, "0", "0")
		r.mustBeConsistent(t)
	})
}

const inEuros = `INSERT INTO prices (provider, unit, price, charge, currency, recorded_by) VALUES ($1, 'input', 1, 2, 'EUR', 'test')`

// newRigOfTwoCurrencies returns an attempt that failed, of a running job that reserved in USD,
// in a rig where the provider abroad is priced in EUR.
func newRigOfTwoCurrencies(t testing.TB) (rig, attempt) {
	t.Helper()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 100)
	r.exec(t, inEuros, "abroad")
	a := r.started(t, of(owner))
	r.record(t, a, a.failure())
	return r, a
}

func TestJobThatNeverReservedIsNotReopenedUnderALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	a := r.failed(t)
	r.limit(t, a.job.Owner, 100)
	_, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "primary", decision())
	mustBe(t, err, onejob.ErrBudgetExceeded)
	if _, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: a.job.Owner}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "primary", decision()); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

func TestJobOfALimitedOwnerIsNotInsertedWithoutItsReservation(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	job := r.accepted(t)
	r.limit(t, job.Owner, 100)
	_, err := r.hand.Exec(t.Context(), copyOf(job, nil))
	if err == nil || !strings.Contains(err.Error(), "nothing is reserved for it") {
		t.Errorf("a hand inserts it: %v", err)
	}
	r.fixtures(t, `UPDATE budgets SET month = month - interval '1 month'`)
	if _, err := r.hand.Exec(t.Context(), copyOf(job, nil)); err == nil {
		t.Error("a hand inserts it under a limit that goes on from the month before")
	}
}

// A limit that is set while a job is inserted, after that looked, makes it look again.
func TestLimitSetWhileAJobIsInsertedLetsItLookAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	r.exec(t, `CREATE FUNCTION set_limit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('inserts') = 1 THEN
			INSERT INTO budgets (owner_id, month, "limit", currency) VALUES (NEW.owner_id, date_trunc('month', now() AT TIME ZONE 'UTC'), 100, 'USD');
		END IF;
		RETURN NULL;
	END $$`)
	r.exec(t, `CREATE SEQUENCE inserts`)
	r.exec(t, `CREATE CONSTRAINT TRIGGER a_limit AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION set_limit()`)
	_, err := r.store.InsertJobs(t.Context(), newJob(t))
	if err != nil || r.count(t, `SELECT nextval('inserts')`) != 3 {
		t.Errorf("it was not inserted by a second try: %v", err)
	}
}

func TestJobSettlesInTheMonthWhereItReserved(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 100)
	a := r.started(t, of(owner))
	r.fixtures(t, `INSERT INTO budgets (owner_id, month, "limit", currency, reserved) VALUES ($1, '2026-01-01', 100, 'USD', 6)`, owner)
	r.fixtures(t, `UPDATE reservations SET month = '2026-01-01' WHERE owner_id = $1`, owner)
	r.fixtures(t, `UPDATE budgets SET reserved = 0 WHERE owner_id = $1 AND month > '2026-01-01'`, owner)
	r.record(t, a, using(a.success(`1`), 3))
	r.mustComplete(t, a)
	if n := r.count(t, `SELECT count(*) FROM budgets WHERE owner_id = $1 AND month = '2026-01-01' AND reserved = 0 AND spent = 6`, owner); n != 1 {
		t.Error("the job did not settle in January")
	}
	r.mustHaveBudget(t, owner, "0", "6")
	r.mustBeConsistent(t)
}

func TestLimitGoesOnIntoAMonthWithoutOne(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.exec(t, `INSERT INTO budgets (owner_id, month, "limit", currency) VALUES ($1, '2026-01-01', 1000, 'USD'), ($1, '2026-02-01', $2, 'USD'), ($1, '2999-01-01', 1000, 'USD')`, owner, reckoned)
	r.accepted(t, of(owner))
	r.mustRefuseJob(t, newJob(t, of(owner)))
	if n := r.count(t, `SELECT count(*) FROM budgets WHERE owner_id = $1 AND month = `+thisMonth+` AND "limit" = $2`, owner, reckoned); n != 1 {
		t.Error("this month did not get February's limit")
	}
	free := rand.Text()
	r.exec(t, `INSERT INTO budgets (owner_id, month, "limit", currency) VALUES ($1, '2999-01-01', 0, 'USD')`, free)
	r.accepted(t, of(free)) // nothing limits it yet
}

func TestDearestProviderIsReserved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := rand.Text()
	r.limit(t, owner, 1000000)
	r.price(t, "primary", "input", "0", "1")
	r.price(t, "primary", "output", "0", "1")
	r.price(t, "second", "output", "0", "3")
	r.price(t, "second", "call", "0", "0.5")
	r.accepted(t, of(owner), func(q *onejob.Request) { q.Input = json.RawMessage(`{"max_tokens": 10}`) })
	r.mustHaveBudget(t, owner, "30.5", "0")
	unbounded := rand.Text()
	r.limit(t, unbounded, 1000000)
	r.accepted(t, of(unbounded))
	r.mustHaveBudget(t, unbounded, "12288.5", "0")
}

func TestRefusedJobBurnsNoKeyAndReplayIsAnsweredOverBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, reckoned)
	there, refused := r.accepted(t, of(owner)), newJob(t, of(owner))
	r.mustRefuseJob(t, refused)
	if n := r.count(t, `SELECT count(*) FROM jobs WHERE owner_id = $1`, owner); n != 1 {
		t.Errorf("%d jobs are stored, want 1", n)
	}
	replay := there
	replay.ID = uuid.Must(uuid.NewV7()).String()
	registered, err := r.store.InsertJobs(t.Context(), replay)
	if err != nil || registered[0].Err != nil || registered[0].Job.ID != there.ID || registered[0].Created {
		t.Errorf("the replay is answered by %+v, %v", registered, err)
	}
	r.limit(t, owner, 2*reckoned)
	if registered, err := r.store.InsertJobs(t.Context(), refused); err != nil || !registered[0].Created {
		t.Errorf("with a higher limit the key gives %+v, %v", registered, err)
	}
	r.mustHaveBudget(t, owner, "12", "0")
	r.mustBeConsistent(t)
}

func TestRefusedJobsOfABatchTakeNoNeighbourWithThem(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	poor, rich, free, abroad := rand.Text(), rand.Text(), rand.Text(), rand.Text()
	r.limit(t, poor, 2*reckoned)
	r.limit(t, rich, 100*reckoned)
	r.exec(t, `INSERT INTO budgets (owner_id, month, "limit", currency) VALUES ($1, `+thisMonth+`, 100, 'EUR')`, abroad)
	there := r.accepted(t, of(poor))
	var jobs []onejob.Job
	for range 5 {
		jobs = append(jobs, newJob(t, of(poor)), newJob(t, of(rich)), newJob(t, of(free)), newJob(t, of(abroad)))
	}
	jobs = append(jobs, there)
	registered, err := r.store.InsertJobs(t.Context(), jobs...)
	if err != nil {
		t.Fatal(err)
	}
	created := map[string]int{}
	for i, answer := range registered {
		switch {
		case answer.Created:
			created[jobs[i].Owner]++
		case jobs[i].Owner == poor:
			mustBe(t, answer.Err, onejob.ErrBudgetExceeded)
		default:
			mustBe(t, answer.Err, onejob.ErrInvalidRequest) // the prices are in another currency
		}
	}
	if created[poor] != 2 || created[rich] != 5 || created[free] != 5 || created[abroad] != 0 {
		t.Errorf("created %v", created) // of the poor's one, and the one that was there
	}
	r.mustHaveBudget(t, poor, "12", "0")
	r.mustHaveBudget(t, rich, "30", "0")
	r.mustBeConsistent(t)
}

func TestLostAcknowledgementOfAnInsertReservesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, reckoned)
	job := newJob(t, of(owner))
	proxy := pgproxy.Start(t, r.url)
	var registered []postgres.Registered
	r.mustLoseOnce(t, proxy, func(s *postgres.Store) (err error) {
		registered, err = s.InsertJobs(t.Context(), job)
		return err
	}, proxy.SwallowCommit("INSERT INTO jobs"))
	if !registered[0].Created || registered[0].Err != nil {
		t.Errorf("answered %+v", registered)
	}
	r.mustHaveBudget(t, owner, "6", "0")
	r.mustBeConsistent(t)
}

func TestFiveHundredJobsAgainstABudgetForAHundredAreAHundred(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, withParameter(t, pgtest.URL(t), "synchronous_commit", "off")).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 100*reckoned)
	var created atomic.Int32
	var calls []func()
	submit := func(jobs ...onejob.Job) func() {
		return func() {
			registered, err := r.store.InsertJobs(t.Context(), jobs...)
			mustBeOneOf(t, err)
			for _, answer := range registered {
				mustBeOneOf(t, answer.Err, onejob.ErrBudgetExceeded)
				if answer.Created {
					created.Add(1)
					r.work(t.Context(), t, answer.Job)
				}
			}
		}
	}
	for i := range 100 { // single ones, and batches that share their owner and their order of keys
		chunk := []onejob.Job{newJob(t, of(owner)), newJob(t, of(owner)), newJob(t, of(owner))}
		calls = append(calls, submit(chunk...), submit(newJob(t, of(owner))), submit(newJob(t, of(owner))))
		if i%10 == 0 {
			slices.Reverse(chunk)
			calls = append(calls, submit(slices.Clone(chunk)...)) // the same jobs again
		}
	}
	together(calls...)
	n := r.count(t, `SELECT count(*) FROM jobs WHERE owner_id = $1`, owner)
	if spent := r.count(t, `SELECT spent + reserved FROM budgets WHERE owner_id = $1`, owner); n != 100 || spent != 100*reckoned {
		t.Errorf("%d jobs ran, and the budget is at %d, want 100 and %d", n, spent, 100*reckoned)
	}
	r.mustBeConsistent(t)
}

// A guard that looks first and reserves later lets all of those pass that looked together.
func TestJobsThatWaitForOneBudgetAreCountedOneByOne(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 3*reckoned)
	held, err := r.hand.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := exec(t.Context(), held, `SELECT FROM budgets WHERE owner_id = $1 FOR UPDATE`, owner); err != nil {
		t.Fatal(err)
	}
	const jobs = 10
	calls := []func(){func() {
		for r.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) < jobs {
			if t.Context().Err() != nil {
				return
			}
		}
		mustBeNothing(t, held.Commit(t.Context()))
	}}
	var created atomic.Int32
	for range jobs {
		calls = append(calls, func() {
			registered, err := r.store.InsertJobs(t.Context(), newJob(t, of(owner)))
			mustBeNothing(t, err)
			if err == nil && registered[0].Created {
				created.Add(1)
			}
		})
	}
	together(calls...)
	if n := created.Load(); n != 3 {
		t.Errorf("%d jobs passed a budget for three", n)
	}
	r.mustBeConsistent(t)
}

// work runs the job to its charge of exactly what was reserved, unless another does.
func (r rig) work(ctx context.Context, t testing.TB, job onejob.Job) {
	s := startOf(job, 1, 0)
	if started, err := r.store.StartAttemptIfNoneLives(ctx, s); err != nil || !started.Mine {
		mustBeNothing(t, err)
		return
	}
	a := attempt{job: job, number: 1, token: s.Execution}
	if _, err := r.store.RecordOutcomeIfLive(ctx, job.ID, 1, using(a.success(`1`), 3)); err != nil {
		t.Error(err)
	}
	if _, err := r.store.CompleteJobIfOpen(ctx, job.ID, 1); err != nil {
		t.Error(err)
	}
}

func mustBeNothing(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestHandCannotLoosenTheGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	owner := rand.Text()
	r.limit(t, owner, 100)
	open, done := r.unknown(t, of(owner)).job.ID, r.started(t, of(owner))
	r.record(t, done, done.success(`1`))
	r.mustComplete(t, done)
	unlaunched := r.accepted(t, of(owner)).ID
	reservation := func(job, set string) string {
		return "UPDATE reservations SET " + set + " WHERE job_id = '" + job + "'"
	}
	r.mustRefuse(t, "its counters move with reservations", `UPDATE budgets SET reserved = 0 WHERE owner_id = '`+owner+`'`)
	r.mustRefuse(t, "its counters move with reservations", `UPDATE budgets SET currency = 'EUR' WHERE owner_id = '`+owner+`'`)
	r.mustRefuse(t, "its counters start at zero", `INSERT INTO budgets (owner_id, month, currency, reserved) VALUES ('o', '2026-01-01', 'USD', 5)`)
	r.mustRefuse(t, "it is unknown and its reservation is released", reservation(open, `state = 'released', closed_at = now()`))
	r.mustRefuse(t, "it is unknown and its reservation is settled", reservation(open, `state = 'settled', settled = 1, closed_at = now()`))
	r.mustRefuse(t, "its reservation is closed once", reservation(done.job.ID, `settled = 0`))
	r.mustRefuse(t, "its reservation is closed once", reservation(open, `amount = 0`))
	for _, table := range []string{"reservations", "budgets"} {
		r.mustRefuse(t, "are never deleted", `DELETE FROM `+table+` WHERE owner_id = '`+owner+`'`)
	}
	r.mustRefuse(t, "it is cancelled and its reservation is open", append([]string{
		`UPDATE jobs SET status = 'cancelled', version = 1, finished_at = now() WHERE id = '` + unlaunched + `'`}, followUp(unlaunched, onejob.StatusCancelled)...)...)
	r.mustRefuse(t, "of a job that is open", `INSERT INTO reservations (job_id, owner_id, month, currency, amount)
		SELECT id, owner_id, `+thisMonth+`, 'USD', 1 FROM jobs WHERE id = '`+done.job.ID+`'`)
	r.mustRefuse(t, "reservations_one_open", `INSERT INTO reservations (job_id, owner_id, month, currency, amount)
		SELECT job_id, owner_id, month, currency, 1 FROM reservations WHERE job_id = '`+open+`'`)
	_, err := r.hand.Exec(t.Context(), `INSERT INTO reservations (job_id, owner_id, month, currency, amount) SELECT id, owner_id, `+thisMonth+`, 'USD', 1000 FROM jobs WHERE id = $1`, unlaunched)
	var state interface{ SQLState() string }
	if !errors.As(err, &state) || state.SQLState() != "OJ002" {
		t.Errorf("a reservation past the limit: %v", err)
	}
	r.mustBeConsistent(t)
}
