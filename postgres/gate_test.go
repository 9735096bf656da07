package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// hash is the contract's of the tests, otherHash that of another version of it.
var hash, otherHash = strings.Repeat("a", 64), strings.Repeat("b", 64)

// proved is what the fallback of the tests has to prove.
var proved = postgres.Proved{ContractSHA256: hash, Provider: "second", Model: "m-2", Adapter: "adapter/1"}

// contractOf returns a contract of that hash, which a reply that says no breaks.
func contractOf(sha256 string) *onejob.Contract {
	return &onejob.Contract{
		SHA256: sha256, File: "invoice.yaml",
		PromptBytes: func(input []byte) (int, error) { return len(input), nil },
		CheckReply: func(_, reply []byte) error {
			if string(reply) == `"no"` {
				return errors.New("rule says-yes: it says no")
			}
			return nil
		},
	}
}

func (r rig) certify(t testing.TB, p postgres.Proved, validFor time.Duration) int64 {
	t.Helper()
	return pgtest.Certify(t, r.hand, "invoice", p, validFor)
}

// failover returns the start of the fallback's attempt, of a new job whose primary failed.
func (r rig) failover(t testing.TB, contract *onejob.Contract, with ...func(*onejob.Request)) postgres.Start {
	t.Helper()
	a := r.started(t, with...)
	r.record(t, a, a.failure())
	return failoverOf(a.job, 2, contract)
}

func failoverOf(job onejob.Job, number int, contract *onejob.Contract) postgres.Start {
	return postgres.Start{
		JobID: job.ID, WorkflowID: job.WorkflowID, Number: number, Provider: proved.Provider, Model: proved.Model, Execution: uuid.NewString(),
		Contract: func(string) *onejob.Contract { return contract }, Adapter: proved.Adapter,
	}
}

func (r rig) mustStart(t testing.TB, s postgres.Start) postgres.Started {
	t.Helper()
	started, err := r.store.StartAttemptIfNoneLives(t.Context(), s)
	if err != nil || started.Busy {
		t.Fatalf("start: %+v, %v", started, err)
	}
	return started
}

const (
	revoke  = `UPDATE certificates SET revoked_at = clock_timestamp(), revoked_by = 'ops', revoked_reason = 'it dreams' WHERE id = $1`
	suspend = `UPDATE certificates SET suspended_at = clock_timestamp(), suspended_reason = 'too many violations' WHERE id = $1`
)

func TestFallbackIsCalledWithACertificateAndNamesIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.certify(t, proved, time.Minute)
	latest := r.certify(t, proved, time.Hour)
	s := r.failover(t, contractOf(hash))
	if started := r.mustStart(t, s); !started.Mine || started.Skipped != nil {
		t.Fatalf("%+v", started)
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1 AND number = 2 AND certificate_id = $2 AND contract_sha256 = $3 AND adapter = $4 AND state = 'starting'`,
		s.JobID, latest, hash, proved.Adapter); n != 1 {
		t.Error("the attempt does not name the certificate that lasts longest")
	}
}

func TestFallbackWithoutExactlyTheCertificateIsSkippedWithTheRemedy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := func(change func(*postgres.Proved)) func(*testing.T) {
		return func(t *testing.T) {
			p := proved
			change(&p)
			r.certify(t, p, time.Hour)
		}
	}
	after := func(sql string, validFor time.Duration) func(*testing.T) {
		return func(t *testing.T) {
			id := r.certify(t, proved, validFor)
			if sql != "" {
				r.exec(t, sql, id)
			}
		}
	}
	for _, c := range []struct {
		why  string
		with func(*testing.T)
		says string
	}{
		{"no certificate", func(*testing.T) {}, ""},
		{"another provider's", other(func(p *postgres.Proved) { p.Provider = "third" }), ""},
		{"another contract's", other(func(p *postgres.Proved) { p.ContractSHA256 = otherHash }), "another version of the contract"},
		{"another model's", other(func(p *postgres.Proved) { p.Model = "m-3" }), "the model m-3"},
		{"another adapter's", other(func(p *postgres.Proved) { p.Adapter = "adapter/2" }), "the adapter adapter/2, this worker has adapter/1"},
		{"expired", after("", -time.Second), "expired at 20"},
		{"revoked", after(revoke, time.Hour), "revoked by ops: it dreams"},
		{"suspended", after(suspend, time.Hour), "suspended: too many violations"},
	} {
		c.with(t)
		s := r.failover(t, contractOf(hash))
		started := r.mustStart(t, s)
		if started.Mine || started.Skipped == nil {
			t.Errorf("%s: %+v", c.why, started)
			continue
		}
		a := *started.Skipped
		if a.State != onejob.AttemptFailed || a.Reason != onejob.ReasonNotCertified || a.Retryable || !strings.Contains(a.Detail, c.says) ||
			!strings.Contains(a.Detail, "'onejob contract verify invoice.yaml --provider second'") {
			t.Errorf("%s: %+v", c.why, a)
		}
		if again := r.mustStart(t, s); again.Mine || again.Skipped != nil {
			t.Errorf("%s: asked again: %+v", c.why, again)
		}
		if p := r.progress(t, s.JobID); len(p.Attempts) != 2 || p.Status != onejob.StatusRunning {
			t.Errorf("%s: %+v", c.why, p)
		}
	}
	r.mustBeConsistent(t)
}

func TestOwnProviderAndKindsWithoutAContractNeedNoCertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	own := failoverOf(r.accepted(t), 1, contractOf(hash))
	own.Provider = "primary"
	if started := r.mustStart(t, own); !started.Mine {
		t.Errorf("the job's own provider: %+v", started)
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE job_id = $1 AND contract_sha256 = $2 AND certificate_id IS NULL`, own.JobID, hash); n != 1 {
		t.Error("the attempt does not say by which contract it asks")
	}
	if started := r.mustStart(t, r.failover(t, nil)); !started.Mine {
		t.Errorf("a kind without a contract: %+v", started)
	}
}

// A hedge is failover too.
func TestHedgeNeedsACertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := failoverOf(r.unknown(t, hedged).job, 2, contractOf(hash))
	s.Lane = 1
	if started := r.mustStart(t, s); started.Skipped == nil || started.Skipped.Lane != 1 {
		t.Errorf("without: %+v", started)
	}
	r.certify(t, proved, time.Hour)
	s.Number, s.Execution = 3, uuid.NewString()
	if started := r.mustStart(t, s); !started.Mine {
		t.Errorf("with: %+v", started)
	}
	r.mustBeConsistent(t)
}

// TestRevocationAndFailoverWaitForEachOther: whoever has the certificate first, the other
// sees what came of it.
func TestRevocationAndFailoverWaitForEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, kept := range []bool{true, false} {
		id := r.certify(t, proved, time.Hour)
		s := r.failover(t, contractOf(hash))
		tx, err := r.hand.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // of a test that failed; the pool waits for it
		if _, err := tx.Exec(t.Context(), revoke, id); err != nil {
			t.Fatal(err)
		}
		answers := make(chan postgres.Started, 1)
		go func() {
			started, err := r.store.StartAttemptIfNoneLives(t.Context(), s)
			if err != nil {
				t.Error(err)
			}
			answers <- started
		}()
		r.awaitLockWait(t, "certificates", func() bool { return len(answers) > 0 })
		if kept {
			err = tx.Rollback(t.Context())
		} else {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if started := <-answers; started.Mine != kept {
			t.Errorf("kept %v: %+v", kept, started)
		}
		if kept {
			r.exec(t, revoke, id)
		}
	}
}

// awaitLockWait waits until a statement about the table waits for a lock. Ended says that
// it did not wait.
func (r rig) awaitLockWait(t testing.TB, table string, ended func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for r.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, table) == 0 {
		if ended() || time.Now().After(deadline) {
			t.Fatalf("nobody waits for a lock on %s", table)
		}
	}
}

// TestNoFailoverStartsOnceItsCertificateIsGone: expiry, revocation, suspension and a changed
// contract race many failovers. Whoever looked after it was gone must not have started.
func TestNoFailoverStartsOnceItsCertificateIsGone(t *testing.T) {
	t.Parallel()
	const starters = 6
	for name, c := range map[string]struct {
		validFor time.Duration
		end      func(context.Context, rig, int64) error // returns when the certificate is gone
	}{
		"revocation": {time.Hour, func(ctx context.Context, r rig, id int64) error { _, err := r.hand.Exec(ctx, revoke, id); return err }},
		"suspension": {time.Hour, func(ctx context.Context, r rig, id int64) error { _, err := r.hand.Exec(ctx, suspend, id); return err }},
		"expiry": {15 * time.Millisecond, func(ctx context.Context, r rig, id int64) error {
			_, err := r.hand.Exec(ctx, `SELECT pg_sleep(extract(epoch FROM expires_at - clock_timestamp())::double precision + 0.001) FROM certificates WHERE id = $1`, id)
			return err
		}},
		"changed hash": {time.Hour, func(context.Context, rig, int64) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for round := range rounds {
				var gone atomic.Bool
				var let, skipped atomic.Int32
				p := proved
				p.ContractSHA256 = fmt.Sprintf("%064x", round)
				contract := atomic.Pointer[onejob.Contract]{}
				contract.Store(contractOf(p.ContractSHA256))
				starts := make([]postgres.Start, starters)
				for i := range starts {
					starts[i] = r.failover(t, nil)
					starts[i].Contract = func(string) *onejob.Contract { return contract.Load() }
				}
				id := r.certify(t, p, c.validFor)
				calls := []func(){func() {
					if err := c.end(t.Context(), r, id); err != nil {
						t.Error(err)
					}
					contract.Store(contractOf(otherHash)) // of the others the certificate is gone all the same
					gone.Store(true)
				}}
				for _, s := range starts {
					calls = append(calls, func() {
						tooLate := gone.Load()
						started, err := r.store.StartAttemptIfNoneLives(t.Context(), s)
						switch {
						case err != nil:
							t.Error(err)
						case tooLate && started.Mine:
							t.Errorf("round %d: it started after the certificate was gone", round)
						case started.Mine:
							let.Add(1)
						case started.Skipped != nil:
							skipped.Add(1)
						}
					})
				}
				together(calls...)
				if let.Load()+skipped.Load() != starters {
					t.Errorf("round %d: %d were let in and %d skipped of %d", round, let.Load(), skipped.Load(), starters)
				}
				late := r.failover(t, contract.Load())
				if name != "changed hash" {
					late.Contract = func(string) *onejob.Contract { return contractOf(p.ContractSHA256) }
				}
				if started := r.mustStart(t, late); started.Mine {
					t.Errorf("round %d: it started by a certificate that is gone", round)
				}
			}
			r.mustBeConsistent(t)
		})
	}
}

// TestDatabaseLetsNoUncertifiedAttemptIn: not a program's either that does not ask.
func TestDatabaseLetsNoUncertifiedAttemptIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	valid, gone := r.certify(t, proved, time.Hour), r.certify(t, proved, -time.Second)
	revoked := r.certify(t, proved, time.Hour)
	r.exec(t, revoke, revoked)
	s := r.failover(t, contractOf(hash))
	insert := func(provider, sha, model, adapter string, certificate, uncertified any) error {
		return pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `
				INSERT INTO attempts (job_id, number, provider, model, job_version, execution, contract_sha256, adapter, certificate_id, uncertified)
				VALUES ($1, 2, $2, $3, 0, gen_random_uuid(), $4, $5, $6, $7)`, s.JobID, provider, model, sha, adapter, certificate, uncertified)
			if err == nil {
				err = errRollback
			}
			return err
		})
	}
	var permission, ordinary int64
	for marked, id := range map[bool]*int64{true: &permission, false: &ordinary} {
		if err := r.hand.QueryRow(t.Context(), `
			INSERT INTO decisions (job_id, action, provider, decided_by, token, uncertified) VALUES ($1, 'start-attempt', 'second', 'ops', gen_random_uuid()::text, $2)
			RETURNING id`, s.JobID, marked).Scan(id); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		why                           string
		provider, sha, model, adapter string
		certificate, uncertified      any
		allowed                       bool
	}{
		{"with a certificate", "second", hash, "m-2", "adapter/1", valid, nil, true},
		{"with a permission", "second", hash, "m-2", "adapter/1", nil, permission, true},
		{"the job's own provider", "primary", hash, "", "adapter/1", nil, nil, true},
		{"without", "second", hash, "m-2", "adapter/1", nil, nil, false},
		{"with an expired one", "second", hash, "m-2", "adapter/1", gone, nil, false},
		{"with a revoked one", "second", hash, "m-2", "adapter/1", revoked, nil, false},
		{"with another contract's", "second", otherHash, "m-2", "adapter/1", valid, nil, false},
		{"with another model's", "second", hash, "m-3", "adapter/1", valid, nil, false},
		{"with another adapter's", "second", hash, "m-2", "adapter/2", valid, nil, false},
		{"with another provider's", "third", hash, "m-2", "adapter/1", valid, nil, false},
		{"with a decision that permits nothing", "second", hash, "m-2", "adapter/1", nil, ordinary, false},
		{"with a permission for another provider", "third", hash, "m-2", "adapter/1", nil, permission, false},
		{"with both", "second", hash, "m-2", "adapter/1", valid, permission, false},
	} {
		if err := insert(c.provider, c.sha, c.model, c.adapter, c.certificate, c.uncertified); errors.Is(err, errRollback) != c.allowed {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	if started := r.mustStart(t, s); !started.Mine {
		t.Fatal(started)
	}
	if _, err := r.hand.Exec(t.Context(), `UPDATE attempts SET certificate_id = NULL WHERE job_id = $1 AND number = 2`, s.JobID); err == nil {
		t.Error("by what an attempt was let in can be changed")
	}
}

var errRollback = errors.New("roll back")

// ask is a decision for a provider, by a catalog that knows the contract.
func ask(uncertified bool) postgres.Decision {
	d := decision()
	d.Uncertified = uncertified
	d.Catalog = catalog()
	d.Catalog.Kinds["invoice"] = onejob.Kind{Contract: contractOf(hash)}
	known := d.Catalog.Providers[proved.Provider]
	known.Model, known.Adapter = proved.Model, proved.Adapter
	d.Catalog.Providers[proved.Provider] = known
	return d
}

func TestAskingForAnUncertifiedProviderIsRefusedUnlessForced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.failed(t)
	refused := ask(false)
	for range 2 { // told twice it is refused twice
		_, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", refused)
		if !errors.Is(err, onejob.ErrNotCertified) || !strings.Contains(err.Error(), "onejob contract verify invoice.yaml --provider second") || !strings.Contains(err.Error(), "--uncertified") {
			t.Fatalf("asked: %v", err)
		}
	}
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "primary", ask(false)); err != nil {
		t.Errorf("the job's own provider: %v", err)
	}
	b := r.failed(t)
	forced := ask(true)
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), b.job.ID, "second", forced); err != nil {
		t.Fatalf("forced: %v", err)
	}
	s := failoverOf(b.job, 2, contractOf(hash))
	if started := r.mustStart(t, s); !started.Mine {
		t.Fatalf("forced: %+v", started)
	}
	if n := r.count(t, `SELECT count(*) FROM attempts a JOIN decisions d ON d.id = a.uncertified WHERE a.job_id = $1 AND d.decided_by = 'ops' AND d.token = $2`, b.job.ID, forced.Token); n != 1 {
		t.Error("the attempt does not say who asked for it")
	}
	r.record(t, attempt{b.job, 2, s.Execution}, attempt{token: s.Execution}.failure())
	if started := r.mustStart(t, failoverOf(b.job, 3, contractOf(hash))); started.Skipped == nil {
		t.Errorf("a permission is for one attempt: %+v", started)
	}
	r.certify(t, proved, time.Hour)
	if _, err := r.store.RequestAttemptIfNoneLives(t.Context(), r.failed(t).job.ID, "second", ask(false)); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	r.mustBeConsistent(t)
}

func TestResultThatSomebodyFoundOutIsCheckedByTheContract(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := failoverOf(r.accepted(t), 1, contractOf(hash))
	s.Provider = "primary"
	r.mustStart(t, s)
	_, err := r.store.ResolveAttemptIfLive(t.Context(), s.JobID, 1, onejob.AttemptSucceeded, json.RawMessage(`"no"`), ask(false))
	if !errors.Is(err, onejob.ErrInvalidRequest) || !strings.Contains(err.Error(), "rule says-yes") || !strings.Contains(err.Error(), "invoice.yaml") {
		t.Errorf("a result that breaks the contract: %v", err)
	}
	if _, err := r.store.ResolveAttemptIfLive(t.Context(), s.JobID, 1, onejob.AttemptSucceeded, json.RawMessage(`"yes"`), ask(false)); err != nil {
		t.Errorf("a result that honours it: %v", err)
	}
	before := r.started(t) // asked without a contract
	if _, err := r.store.ResolveAttemptIfLive(t.Context(), before.job.ID, 1, onejob.AttemptSucceeded, json.RawMessage(`"no"`), ask(false)); err != nil {
		t.Errorf("an attempt without a contract: %v", err)
	}
}

// violate makes a new job whose fallback's reply breaks the contract.
func (r rig) violate(t testing.TB, p postgres.Proved) attempt {
	t.Helper()
	s := r.failover(t, contractOf(p.ContractSHA256))
	s.Model, s.Adapter = p.Model, p.Adapter
	r.mustStart(t, s)
	broken := postgres.Outcome{State: onejob.AttemptFailed, Reason: onejob.ReasonContractViolation, Detail: "rule says-yes: it says no", RecordedBy: s.Execution}
	if _, err := r.store.RecordOutcomeIfLive(t.Context(), s.JobID, 2, broken); err != nil {
		t.Fatal(err)
	}
	return attempt{onejob.Job{ID: s.JobID}, 2, s.Execution}
}

func TestViolationsSuspendTheCertificateAtTheThresholdWithinTheWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.certify(t, proved, time.Hour)
	after := onejob.Suspension{Violations: 3, Within: time.Hour}
	suspended := func() int64 {
		n, err := r.store.SuspendCertificateIfViolated(t.Context(), proved, after)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	r.violate(t, proved)
	r.violate(t, proved)
	old := r.violate(t, proved)
	r.exec(t, `ALTER TABLE attempts DISABLE TRIGGER attempts_updated`)
	r.exec(t, `UPDATE attempts SET finished_at = finished_at - interval '61 minutes' WHERE job_id = $1 AND number = 2`, old.job.ID)
	r.exec(t, `ALTER TABLE attempts ENABLE TRIGGER attempts_updated`)
	if suspended() != 0 {
		t.Fatal("suspended by two violations within the hour")
	}
	r.violate(t, proved)
	if suspended() != 1 || suspended() != 0 {
		t.Fatal("not suspended once by the third")
	}
	var why string
	if err := r.hand.QueryRow(t.Context(), `SELECT suspended_reason FROM certificates WHERE id = $1`, id).Scan(&why); err != nil || why != "3 replies in production broke the contract within 1h0m0s" {
		t.Errorf("it says %q, %v", why, err)
	}
	if started := r.mustStart(t, r.failover(t, contractOf(hash))); started.Skipped == nil || !strings.Contains(started.Skipped.Detail, "suspended: 3 replies") {
		t.Errorf("%+v", started)
	}
	// A new proof counts anew.
	r.exec(t, `ALTER TABLE certificates DISABLE TRIGGER certificates_updated`)
	r.exec(t, `UPDATE certificates SET passed_at = clock_timestamp() WHERE id = $1`, r.certify(t, proved, time.Hour))
	r.exec(t, `ALTER TABLE certificates ENABLE TRIGGER certificates_updated`)
	if suspended() != 0 {
		t.Error("a new certificate is suspended for what came before it")
	}
}

// TestViolationsAtOnceSuspendTheCertificate: each is committed before it is counted, so the
// last of them counts all.
func TestViolationsAtOnceSuspendTheCertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for round := range 10 {
		p := proved
		p.ContractSHA256 = fmt.Sprintf("%064x", round)
		id := r.certify(t, p, time.Hour)
		var suspended atomic.Int64
		calls := make([]func(), 5)
		for i := range calls {
			s := r.failover(t, contractOf(p.ContractSHA256))
			r.mustStart(t, s)
			calls[i] = func() {
				broken := postgres.Outcome{State: onejob.AttemptFailed, Reason: onejob.ReasonContractViolation, RecordedBy: s.Execution}
				_, err := r.store.RecordOutcomeIfLive(t.Context(), s.JobID, 2, broken)
				n, counted := r.store.SuspendCertificateIfViolated(t.Context(), p, onejob.Suspension{Violations: 5})
				if err := errors.Join(err, counted); err != nil {
					t.Error(err)
				}
				suspended.Add(n)
			}
		}
		together(calls...)
		if n := r.count(t, `SELECT count(*) FROM certificates WHERE id = $1 AND suspended_at IS NOT NULL`, id); n != 1 || suspended.Load() != 1 {
			t.Errorf("round %d: %d suspended, told %d times", round, n, suspended.Load())
		}
	}
}
