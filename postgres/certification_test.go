package postgres_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// storedContract stores a contract of a name of its own.
func (r rig) storedContract(t testing.TB) postgres.ContractText {
	t.Helper()
	sum := sha256.Sum256([]byte(rand.Text()))
	c := postgres.ContractText{SHA256: hex.EncodeToString(sum[:]), Kind: "invoice", Version: 1, File: "invoice.yaml", Files: map[string]string{"invoice.yaml": "version: 1\n"}}
	if err := r.store.StoreContractOnce(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func runOf(c postgres.ContractText, calls, mustPass int) postgres.Certification {
	return postgres.Certification{ID: uuid.NewString(), Contract: c.Kind, ContractSHA256: c.SHA256, Provider: "second", Model: "m-large", Adapter: "http/1", RequestedBy: "ana", Calls: calls, MustPass: mustPass}
}

// begun begins a run of calls, each reckoned at a thousand tokens.
func (r rig) begun(t testing.TB, c postgres.ContractText, calls int) postgres.Certification {
	t.Helper()
	run, err := r.store.BeginCertificationOnce(t.Context(), runOf(c, calls, calls), thousands(calls))
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func thousands(n int) (usages []json.RawMessage) {
	for range n {
		usages = append(usages, json.RawMessage(`{"input_tokens": 1000, "output_tokens": 0}`))
	}
	return usages
}

// answered makes a call of the run and records a good answer.
func (r rig) certAnswered(t testing.TB, run postgres.Certification, repeat int) postgres.CertificationCall {
	t.Helper()
	call := r.certCalled(t, run, repeat)
	if err := r.store.RecordCallIfOpen(t.Context(), call, goodAnswer); err != nil {
		t.Fatal(err)
	}
	return call
}

var goodAnswer = postgres.CallOutcome{
	State: postgres.CallAnswered, Usage: json.RawMessage(`{"input_tokens": 500, "output_tokens": 10}`),
	ReplySHA256: make([]byte, 32), Verdict: json.RawMessage(`{"findings": []}`), Latency: time.Second,
}

func (r rig) certCalled(t testing.TB, run postgres.Certification, repeat int) postgres.CertificationCall {
	t.Helper()
	call := postgres.CertificationCall{RunID: run.ID, Case: "one", Repeat: repeat, Try: 1}
	mine, busy, err := r.store.StartCallIfNew(t.Context(), postgres.CallStart{CertificationCall: call, Execution: uuid.NewString(), ListenFor: time.Minute, Provider: run.Provider, Model: run.Model, Adapter: run.Adapter})
	if err != nil || !mine || busy {
		t.Fatalf("start: mine %v, busy %v, %v", mine, busy, err)
	}
	return call
}

func (r rig) certPassed(t testing.TB, c postgres.ContractText) postgres.Certification {
	t.Helper()
	run := r.begun(t, c, 1)
	r.certAnswered(t, run, 1)
	return r.certEnded(t, run, postgres.CertificationPassed)
}

func (r rig) certEnded(t testing.TB, run postgres.Certification, state postgres.CertificationState) postgres.Certification {
	t.Helper()
	ended, err := r.store.EndCertificationIfRunning(t.Context(), run.ID, postgres.CertificationEnd{State: state, Report: json.RawMessage(`{"why": "\u0000"}`), ValidFor: time.Hour})
	if err != nil || ended.State != state {
		t.Fatalf("%+v, %v", ended, err)
	}
	return ended
}

// priced puts a price of a thousandth on each token of the second provider.
func (r rig) pricedSecond(t testing.TB) {
	t.Helper()
	if _, err := r.store.ImportPrices(t.Context(), "test", []onejob.Price{
		{Provider: "second", Model: "m-large", Unit: "input", Price: mustAmount(t, "0.001"), Currency: "USD"},
		{Provider: "second", Model: "m-large", Unit: "output", Price: mustAmount(t, "0.001"), Currency: "USD"},
	}); err != nil {
		t.Fatal(err)
	}
}

func (r rig) budgeted(t testing.TB, limit string) {
	t.Helper()
	most := mustAmount(t, limit)
	if _, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: onejob.CertificationOwner, Limit: &most, Currency: "USD"}); err != nil {
		t.Fatal(err)
	}
}

func TestPassedRunLeavesOneCertificateHoweverOftenItEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.begun(t, r.storedContract(t), 1)
	r.certAnswered(t, run, 1)
	end := func() {
		if _, err := r.store.EndCertificationIfRunning(t.Context(), run.ID, postgres.CertificationEnd{State: postgres.CertificationPassed, Report: json.RawMessage(`{}`), ValidFor: time.Hour}); err != nil {
			t.Error(err)
		}
	}
	together(end, end, end, end)
	list, err := r.store.Certificates(t.Context(), postgres.CertificateFilter{ContractSHA256: run.ContractSHA256})
	if err != nil || len(list) != 1 || list[0].State != postgres.CertificateValid || list[0].RunID != run.ID || list[0].ExpiresAt.Sub(list[0].PassedAt) != time.Hour {
		t.Fatalf("%+v, %v", list, err)
	}
	again, err := r.store.EndCertificationIfRunning(t.Context(), run.ID, postgres.CertificationEnd{State: postgres.CertificationFailed, Report: json.RawMessage(`{}`)})
	if err != nil || again.State != postgres.CertificationPassed || again.Certificate != list[0].ID {
		t.Errorf("a run that has ended became %+v, %v", again, err)
	}
	_, report, err := r.store.Certificate(t.Context(), list[0].ID)
	if err != nil || string(report) != `{}` {
		t.Errorf("report %s, %v", report, err)
	}
}

func TestRunThatDoesNotPassKeepsItsReportAndLeavesNoCertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, state := range []postgres.CertificationState{postgres.CertificationFailed, postgres.CertificationCancelled} {
		run := r.certEnded(t, r.begun(t, r.storedContract(t), 1), state)
		report, err := r.store.CertificationReport(t.Context(), run.ID)
		if err != nil || !strings.Contains(string(report), "why") || run.Certificate != 0 {
			t.Errorf("%s: %s, %+v, %v", state, report, run, err)
		}
	}
}

func TestRevocationTakesEveryCertificateLikeIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c, other := r.storedContract(t), r.storedContract(t)
	first, second, kept := r.certPassed(t, c), r.certPassed(t, c), r.certPassed(t, other)
	underWay := r.begun(t, c, 1)
	r.certAnswered(t, underWay, 1)
	revoked, err := r.store.RevokeCertificates(t.Context(), first.Certificate, "ana", "it invents lines")
	if err != nil || len(revoked) != 2 || revoked[0].ID != second.Certificate || revoked[0].State != postgres.CertificateRevoked || revoked[0].RevokedBy != "ana" {
		t.Fatalf("%+v, %v", revoked, err)
	}
	if again, err := r.store.RevokeCertificates(t.Context(), first.Certificate, "bob", "again"); err != nil || len(again) != 0 {
		t.Errorf("revoked again: %+v, %v", again, err)
	}
	valid, err := r.store.Certificates(t.Context(), postgres.CertificateFilter{Valid: true})
	if err != nil || len(valid) != 1 || valid[0].ID != kept.Certificate {
		t.Errorf("valid: %+v, %v", valid, err)
	}
	_, err = r.store.EndCertificationIfRunning(t.Context(), underWay.ID, postgres.CertificationEnd{State: postgres.CertificationPassed, Report: json.RawMessage(`{}`), ValidFor: time.Hour})
	if mustBe(t, err, onejob.ErrConflict); err == nil || !strings.Contains(err.Error(), "it invents lines") {
		t.Errorf("a run that was under way replaces what was revoked: %v", err)
	}
	r.certPassed(t, c) // one that begins afterwards may
	for _, call := range []func() error{
		func() error { _, err := r.store.RevokeCertificates(t.Context(), 1<<40, "ana", "r"); return err },
		func() error { _, _, err := r.store.Certificate(t.Context(), 1<<40); return err },
	} {
		mustBe(t, call(), onejob.ErrNotFound)
	}
	_, err = r.store.RevokeCertificates(t.Context(), kept.Certificate, "ana", "")
	mustBe(t, err, onejob.ErrInvalidRequest)
}

func TestRevocationRacesTheRunThatWouldReplaceIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 10 {
		c := r.storedContract(t)
		first, underWay := r.certPassed(t, c), r.begun(t, c, 1)
		r.certAnswered(t, underWay, 1)
		together(
			func() { _, _ = r.store.RevokeCertificates(t.Context(), first.Certificate, "ana", "r") },
			func() {
				_, _ = r.store.EndCertificationIfRunning(t.Context(), underWay.ID, postgres.CertificationEnd{State: postgres.CertificationPassed, Report: json.RawMessage(`{}`), ValidFor: time.Hour})
			})
		valid, err := r.store.Certificates(t.Context(), postgres.CertificateFilter{ContractSHA256: c.SHA256, Valid: true})
		if err != nil || len(valid) != 0 {
			t.Fatalf("a certificate outlived the revocation: %+v, %v", valid, err)
		}
	}
}

func TestBudgetRefusesARunBeforeItsFirstCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.subscribeUsage(t)
	r.pricedSecond(t)
	r.budgeted(t, "2.5")
	c := r.storedContract(t)
	fits := r.begun(t, c, 2)
	if fits.Estimate.Cmp(mustAmount(t, "2")) != 0 || fits.Currency != "USD" {
		t.Fatalf("%+v", fits)
	}
	if again, err := r.store.BeginCertificationOnce(t.Context(), fits, thousands(2)); err != nil || again.ID != fits.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	r.mustHaveBudget(t, onejob.CertificationOwner, "2", "0")
	refused := runOf(r.storedContract(t), 1, 1)
	_, err := r.store.BeginCertificationOnce(t.Context(), refused, thousands(1))
	mustBe(t, err, onejob.ErrBudgetExceeded)
	_, err = r.store.Certification(t.Context(), refused.ID)
	mustBe(t, err, onejob.ErrNotFound)
	r.certAnswered(t, fits, 1)
	r.certAnswered(t, fits, 2)
	r.certEnded(t, fits, postgres.CertificationPassed)
	r.mustHaveBudget(t, onejob.CertificationOwner, "0", "1.02")
	r.drain(t)
	if audit := r.audit(t, postgres.AuditScope{}); audit.Differences != 0 {
		t.Errorf("the audit finds %v", found(audit))
	}
}

func TestBudgetInAnotherCurrencyRefusesTheRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pricedSecond(t)
	most := mustAmount(t, "5")
	if _, err := r.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: onejob.CertificationOwner, Limit: &most, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	_, err := r.store.BeginCertificationOnce(t.Context(), runOf(r.storedContract(t), 1, 1), thousands(1))
	mustBe(t, err, onejob.ErrInvalidRequest)
}

func TestCallIsMadeOnceAndBookedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pricedSecond(t)
	run := r.begun(t, r.storedContract(t), 1)
	call := r.certCalled(t, run, 1)
	again := postgres.CallStart{CertificationCall: call, Execution: uuid.NewString(), ListenFor: time.Minute, Provider: run.Provider, Model: run.Model, Adapter: run.Adapter}
	if mine, _, err := r.store.StartCallIfNew(t.Context(), again); err != nil || mine {
		t.Errorf("a second execution may make the call: %v, %v", mine, err)
	}
	record := func() {
		if err := r.store.RecordCallIfOpen(t.Context(), call, goodAnswer); err != nil {
			t.Error(err)
		}
	}
	together(record, record, record)
	entries, err := r.store.LedgerEntries(t.Context(), postgres.LedgerFilter{Owner: onejob.CertificationOwner})
	if err != nil || len(entries) != 1 || entries[0].Amount.Cmp(mustAmount(t, "0.51")) != 0 || entries[0].Kind != "cost" {
		t.Fatalf("%+v, %v", entries, err)
	}
	if _, err := r.store.ReverseEntryOnce(t.Context(), entries[0].ID, "ana", "not billed"); err != nil {
		t.Errorf("reverse: %v", err)
	}
}

func TestCallOfALostWorkerIsUnknownUntilItsLateAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.subscribeUsage(t)
	r.pricedSecond(t)
	r.budgeted(t, "9")
	run := r.begun(t, r.storedContract(t), 2)
	lost := r.certCalled(t, run, 1)
	if state, err := r.store.FenceCall(t.Context(), lost); err != nil || state != postgres.CallUnknown {
		t.Fatalf("%s, %v", state, err)
	}
	never := postgres.CertificationCall{RunID: run.ID, Case: "one", Repeat: 2, Try: 1}
	if state, err := r.store.FenceCall(t.Context(), never); err != nil || state != postgres.CallFailed {
		t.Fatalf("%s, %v", state, err)
	}
	mine, _, err := r.store.StartCallIfNew(t.Context(), postgres.CallStart{CertificationCall: never, Execution: uuid.NewString(), ListenFor: time.Minute, Provider: run.Provider, Model: run.Model, Adapter: run.Adapter})
	if err != nil || mine {
		t.Errorf("who wakes late makes the call: %v, %v", mine, err)
	}
	r.certEnded(t, run, postgres.CertificationFailed)
	if err := r.store.RecordCallIfOpen(t.Context(), lost, goodAnswer); err != nil {
		t.Fatal(err)
	}
	calls, err := r.store.CertificationCalls(t.Context(), run.ID)
	if err != nil || calls[0].State != postgres.CallAnswered || calls[0].Cost.Cmp(mustAmount(t, "0.51")) != 0 {
		t.Errorf("%+v, %v", calls, err)
	}
	r.mustHaveBudget(t, onejob.CertificationOwner, "0", "0.51")
	r.drain(t)
	if audit := r.audit(t, postgres.AuditScope{}); audit.Differences != 0 {
		t.Errorf("the audit finds %v", found(audit))
	}
}

func TestCallsOfACertificationCountAgainstTheProvidersLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.begun(t, r.storedContract(t), 2)
	r.certCalled(t, run, 1)
	second := postgres.CallStart{CertificationCall: postgres.CertificationCall{RunID: run.ID, Case: "one", Repeat: 2, Try: 1}, Execution: uuid.NewString(), ListenFor: time.Minute, Provider: "second", Model: run.Model, Adapter: run.Adapter, MostAtOnce: 1}
	if mine, busy, err := r.store.StartCallIfNew(t.Context(), second); err != nil || mine || !busy {
		t.Errorf("a second call beside the only one: mine %v, busy %v, %v", mine, busy, err)
	}
	job := r.accepted(t, func(q *onejob.Request) { q.Provider, q.Fallbacks = "second", nil })
	start := startOf(job, 1, 0)
	start.Provider, start.MostAtOnce = "second", 1
	if started, err := r.store.StartAttemptIfNoneLives(t.Context(), start); err != nil || !started.Busy {
		t.Errorf("an attempt beside the only call: %+v, %v", started, err)
	}
}

// A workflow that is terminated leaves its run under way: the next one frees what it set aside.
func TestAbandonedRunEndsWithTheNextOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pricedSecond(t)
	r.budgeted(t, "2.5")
	c := r.storedContract(t)
	abandoned := r.begun(t, c, 2)
	call := r.certCalled(t, abandoned, 1)
	next := r.begun(t, c, 2)
	r.mustHaveBudget(t, onejob.CertificationOwner, "2", "0")
	if run, err := r.store.Certification(t.Context(), abandoned.ID); err != nil || run.State != postgres.CertificationCancelled {
		t.Errorf("%+v, %v", run, err)
	}
	if again, err := r.store.BeginCertificationOnce(t.Context(), next, thousands(2)); err != nil || again.State != postgres.CertificationRunning {
		t.Errorf("begun again: %+v, %v", again, err)
	}
	if err := r.store.RecordCallIfOpen(t.Context(), call, goodAnswer); err != nil {
		t.Fatal(err)
	}
	r.mustHaveBudget(t, onejob.CertificationOwner, "2", "0.51")
}

// A renewal that began before the violations does not take their suspension back.
func TestSuspensionRacesTheRunThatWouldReplaceIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for round := range 10 {
		c := r.storedContract(t)
		first, underWay := r.certPassed(t, c), r.begun(t, c, 1)
		r.certAnswered(t, underWay, 1)
		p := postgres.Proved{ContractSHA256: c.SHA256, Provider: first.Provider, Model: first.Model, Adapter: first.Adapter}
		r.violate(t, p)
		suspend := func() {
			if n, err := r.store.SuspendCertificateIfViolated(t.Context(), p, onejob.Suspension{Violations: 1, Within: time.Hour}); err != nil || n == 0 {
				t.Errorf("%d suspended, %v", n, err)
			}
		}
		var ended error
		end := func() {
			_, ended = r.store.EndCertificationIfRunning(t.Context(), underWay.ID, postgres.CertificationEnd{State: postgres.CertificationPassed, Report: json.RawMessage(`{}`), ValidFor: time.Hour})
		}
		if round == 0 {
			suspend()
			end()
			if mustBe(t, ended, onejob.ErrConflict); ended != nil && !strings.Contains(ended.Error(), "suspended while") {
				t.Errorf("it says %v", ended)
			}
			continue
		}
		together(suspend, end)
		valid, err := r.store.Certificates(t.Context(), postgres.CertificateFilter{ContractSHA256: c.SHA256, Valid: true})
		if err != nil || ended != nil && len(valid) != 0 {
			t.Fatalf("a certificate outlived the suspension: %+v, %v, %v", valid, ended, err)
		}
	}
}

// It would have another model, or server, prove what the certificate says of this one.
func TestWorkerWithAnotherConfigurationMakesNoCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.begun(t, r.storedContract(t), 1)
	for name, asks := range map[string][2]string{"another model": {"m-small", run.Adapter}, "another server": {run.Model, "http/1 https://elsewhere.example"}} {
		mine, _, err := r.store.StartCallIfNew(t.Context(), postgres.CallStart{
			CertificationCall: postgres.CertificationCall{RunID: run.ID, Case: "one", Repeat: 1, Try: 1}, Execution: uuid.NewString(), ListenFor: time.Minute,
			Provider: run.Provider, Model: asks[0], Adapter: asks[1],
		})
		if mustBe(t, err, onejob.ErrConflict); mine || err != nil && !strings.Contains(err.Error(), asks[0]+" by "+asks[1]) {
			t.Errorf("%s: mine %v, %v", name, mine, err)
		}
	}
	r.certCalled(t, run, 1)
}

func TestHandCannotBendACertification(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.storedContract(t)
	passed, running := r.certPassed(t, c), r.begun(t, c, 2)
	r.certCalled(t, running, 1)
	insertRun := func(state string) string {
		return fmt.Sprintf(`INSERT INTO certification_runs (id, contract, contract_sha256, provider, model, adapter, requested_by, calls, must_pass, owner_id, estimate, currency, state)
			VALUES (gen_random_uuid(), 'invoice', '%s', 'p', 'm', 'a', 'x', 0, 0, 'onejob:certification', 0, 'XXX', '%s')`, c.SHA256, state)
	}
	certificate := func(run, values string) string {
		return fmt.Sprintf(`INSERT INTO certificates (run_id, contract, contract_sha256, provider, model, adapter, expires_at, report)
			VALUES ('%s', 'invoice', '%s', %s, now() + interval '1 hour', '{}')`, run, c.SHA256, values)
	}
	for name, sql := range map[string]string{
		"a certificate of a run that is under way":       certificate(running.ID, `'second', 'm-large', 'http/1'`),
		"a certificate of another provider than its run": certificate(running.ID, `'primary', 'm-large', 'http/1'`),
		"a second certificate of a run":                  certificate(passed.ID, `'second', 'm-large', 'http/1'`),
		"a longer life":                                  `UPDATE certificates SET expires_at = expires_at + interval '1 year'`,
		"another report":                                 `UPDATE certificates SET report = '{"passed": true}'`,
		"a revocation without a reason":                  `UPDATE certificates SET revoked_at = now(), revoked_by = 'x'`,
		"a suspension without a reason":                  `UPDATE certificates SET suspended_at = now()`,
		"a certificate deleted":                          `DELETE FROM certificates`,
		"certificates truncated":                         `TRUNCATE certificates`,
		"a run that starts as passed":                    insertRun("passed"),
		"a run that ends while a call is under way":      `UPDATE certification_runs SET state = 'failed', report = '{}' WHERE id = '` + running.ID + `'`,
		"a run that ends twice":                          `UPDATE certification_runs SET state = 'failed', report = '{}' WHERE id = '` + passed.ID + `'`,
		"a run deleted":                                  `DELETE FROM certification_runs`,
		"a call of a run that has ended":                 `INSERT INTO certification_calls (run_id, model, adapter, case_name, repeat, try, execution, listen_until) VALUES ('` + passed.ID + `', 'm-large', 'http/1', 'two', 1, 1, gen_random_uuid(), now())`,
		"a call by another adapter":                      `INSERT INTO certification_calls (run_id, model, adapter, case_name, repeat, try, execution, listen_until) VALUES ('` + running.ID + `', 'm-large', 'http/2', 'two', 1, 1, gen_random_uuid(), now())`,
		"another settlement":                             `UPDATE certification_runs SET settled = settled + 1 WHERE id = '` + passed.ID + `'`,
		"a second call beside a live one":                `INSERT INTO certification_calls (run_id, model, adapter, case_name, repeat, try, execution, listen_until) VALUES ('` + running.ID + `', 'm-large', 'http/1', 'one', 1, 2, gen_random_uuid(), now())`,
		"an answer that changes":                         `UPDATE certification_calls SET state = 'unknown', reason = 'x', verdict = NULL, reply_sha256 = NULL WHERE state = 'answered'`,
		"an answer without its cost":                     `UPDATE certification_calls SET state = 'answered', usage = '{}', verdict = '{}', reply_sha256 = decode(repeat('00', 32), 'hex'), latency_ms = 1, finished_at = now() WHERE state = 'calling'`,
		"a call deleted":                                 `DELETE FROM certification_calls`,
		"a contract changed":                             `UPDATE contract_texts SET kind = 'ticket'`,
	} {
		if _, err := r.hand.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was let in", name)
		}
	}
	if _, err := r.hand.Exec(t.Context(), `UPDATE certificates SET suspended_at = now(), suspended_reason = '5 of 9 replies broke it'`); err != nil {
		t.Fatal(err)
	}
	for name, sql := range map[string]string{
		"a suspension taken back": `UPDATE certificates SET suspended_at = NULL, suspended_reason = NULL`,
		"another suspension":      `UPDATE certificates SET suspended_reason = 'other'`,
	} {
		if _, err := r.hand.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s was let in", name)
		}
	}
	list, err := r.store.Certificates(t.Context(), postgres.CertificateFilter{})
	if err != nil || list[0].State != postgres.CertificateSuspended {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestRunThatHasTooFewAnswersCannotPass(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.begun(t, r.storedContract(t), 2)
	r.certAnswered(t, run, 1)
	if _, err := r.store.EndCertificationIfRunning(t.Context(), run.ID, postgres.CertificationEnd{State: postgres.CertificationPassed, Report: json.RawMessage(`{}`), ValidFor: time.Hour}); err == nil {
		t.Error("it passed")
	}
}
