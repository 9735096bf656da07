package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob"
)

// illegal is the SQLSTATE of a move that the triggers refuse.
const illegal = "OJ001"

// refusal is what Postgres says no with: the name of a constraint, or words of ours.
func refusal(err error) string {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return fmt.Sprint(err)
	case pg.Code == illegal:
		return pg.Message
	}
	return pg.ConstraintName
}

// mustRefuse runs the statements in one transaction, which Postgres must refuse with
// words that hold why.
func (r rig) mustRefuse(t *testing.T, why string, statements ...string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
		for _, sql := range statements {
			if tag, err := tx.Exec(t.Context(), sql); err != nil {
				return err
			} else if tag.RowsAffected() == 0 {
				return fmt.Errorf("no row: %s", sql)
			}
		}
		return nil
	})
	if err == nil || !strings.Contains(refusal(err), why) {
		t.Errorf("want a refusal with %q, got %q (%v)\n%s", why, refusal(err), err, strings.Join(statements, "\n"))
	}
}

// copyOf returns an insert of a copy of the job's row with some columns replaced.
func copyOf(job onejob.Job, replace map[string]string) string {
	columns := []string{"id", "owner_id", "idempotency_key", "workflow_id", "kind", "provider", "input", "fingerprint", "fingerprint_version", "timeout_ms", "listen_for_ms", "max_attempts"}
	values := []string{"gen_random_uuid()", "owner_id", "idempotency_key || 'x'", "workflow_id || 'x'", "kind", "provider", "input", "fingerprint", "fingerprint_version", "timeout_ms", "listen_for_ms", "max_attempts"}
	for column, value := range replace {
		columns, values = append(columns, column), append(values, value)
		for i := range len(columns) - 1 {
			if columns[i] == column {
				values[i], columns, values = value, columns[:len(columns)-1], values[:len(values)-1]
				break
			}
		}
	}
	return fmt.Sprintf("INSERT INTO jobs (%s) SELECT %s FROM jobs WHERE id = '%s'", strings.Join(columns, ", "), strings.Join(values, ", "), job.ID)
}

func with(column, value string) map[string]string { return map[string]string{column: value} }

func TestHandWrittenJobIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := r.accepted(t)
	if _, err := r.hand.Exec(t.Context(), copyOf(job, nil)); err != nil {
		t.Fatalf("a legal copy is refused: %v", err)
	}
	for why, replace := range map[string]map[string]string{
		"jobs_owner_key":                                        with("idempotency_key", "idempotency_key"),
		"jobs_workflow_id":                                      map[string]string{"workflow_id": "workflow_id", "idempotency_key": "'other'"},
		"onejob_name_not_blank":                                 with("owner_id", `E' \t\n'`),
		"jobs_owner_id_check":                                   with("owner_id", "repeat('o', 201)"),
		"jobs_idempotency_key_check":                            with("idempotency_key", "repeat('k', 256)"),
		"jobs_workflow_id_check":                                with("workflow_id", "repeat('w', 513)"),
		"jobs_fingerprint_check":                                with("fingerprint", `'\x00'`),
		"jobs_fingerprint_version_check":                        with("fingerprint_version", "0"),
		"jobs_timeout_ms_check":                                 with("timeout_ms", "0"),
		"jobs_check":                                            with("listen_for_ms", "timeout_ms - 1"),
		"jobs_max_attempts_check":                               with("max_attempts", "0"),
		"jobs_hedge_after_ms_check":                             with("hedge_after_ms", "0"),
		"jobs_callback_url_check":                               with("callback_url", "''"),
		"starts as accepted at version 0, not as running":       with("status", "'running'"),
		"starts as accepted at version 0, not as accepted at 1": with("version", "1"),
		"jobs_result_has_winner":                                with("result", "'1'"),
		"jobs_error_means_failed":                               with("error", "'{}'"),
		"jobs_finished_when_closed":                             with("finished_at", "now()"),
	} {
		r.mustRefuse(t, why, copyOf(job, replace))
	}
	for _, column := range []string{"idempotency_key", "workflow_id", "kind", "provider"} {
		r.mustRefuse(t, "onejob_name_not_blank", copyOf(job, with(column, "''")))
	}
}

// Whichever door forgets to ask: the database keeps the program's own owners.
func TestHandWrittenRowOfAReservedOwnerIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := r.accepted(t)
	r.mustRefuse(t, "jobs_owner_not_reserved", copyOf(job, with("owner_id", "'onejob:certification'")))
	for constraint, sql := range map[string]string{
		"tokens_owner_not_reserved": `INSERT INTO tokens (id, sha256, owner_id, role, created_by, expires_at)
			VALUES (gen_random_uuid(), decode(repeat('00', 32), 'hex'), 'onejob:certification', 'user', 'x', now() + interval '1 hour')`,
		"webhook_endpoints_owner_not_reserved": `INSERT INTO webhook_endpoints (id, owner_id, url, secret, topics) VALUES (gen_random_uuid(), 'onejob:x', 'https://x', 'whsec_x', '{}')`,
		"referrals_owner_not_reserved":         `INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ('a', 'onejob:x', 1, 'USD', 'x')`,
		"budgets_owner_not_reserved":           `INSERT INTO budgets (owner_id, month, "limit", currency) VALUES ('onejob:x', '2996-01-01', 1, 'USD')`,
		"ledger_owner_not_reserved":            `INSERT INTO ledger (source, owner_id, kind, amount, currency, recorded_by) VALUES ('topup:x', 'onejob:certification', 'topup', 1, 'USD', 'x')`,
		"certification_runs_owner": `INSERT INTO certification_runs (id, contract, contract_sha256, provider, model, adapter, requested_by, calls, must_pass, owner_id, estimate, currency)
			VALUES (gen_random_uuid(), 'k', repeat('0', 64), 'p', 'm', 'a', 'x', 0, 0, 'acme', 0, 'XXX')`,
	} {
		r.mustRefuse(t, constraint, sql)
	}
	r.mustSetBudget(t, onejob.CertificationOwner, "2996-11", "1", "USD")
}

func TestHandWrittenAttemptIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	insert := func(jobID, columns, values string) string {
		return fmt.Sprintf(`INSERT INTO attempts (job_id, model, provider, execution, number, job_version%s)
			SELECT id, '', provider, gen_random_uuid(), 2, version%s FROM jobs WHERE id = '%s'`, columns, values, jobID)
	}
	running, hedgedJob := r.failing(t), r.started(t, hedged)
	if _, err := r.hand.Exec(t.Context(), insert(hedgedJob.job.ID, ", lane", ", 1")); err != nil {
		t.Fatalf("a legal hedge is refused: %v", err)
	}
	r.mustRefuse(t, "attempts_one_live", insert(r.started(t).job.ID, "", ""))
	r.mustRefuse(t, "attempts_one_live", strings.Replace(insert(hedgedJob.job.ID, ", lane", ", 1"), "2, version", "3, version", 1))
	r.mustRefuse(t, "attempts_one_live", insert(r.answered(t).job.ID, "", ""))
	r.mustRefuse(t, "attempts_job_id_fkey", `INSERT INTO attempts (job_id, model, provider, execution, number, job_version) VALUES (gen_random_uuid(), '', 'p', gen_random_uuid(), 1, 0)`)
	r.mustRefuse(t, "while the job is accepted", insert(r.accepted(t).ID, "", ""))
	r.mustRefuse(t, "while the job is unknown", insert(r.unknown(t).job.ID, "", ""))
	r.mustRefuse(t, "while the job is succeeded", insert(r.succeeded(t).job.ID, "", ""))
	r.mustRefuse(t, "while the job is failed", insert(r.failed(t).job.ID, "", ""))
	r.mustRefuse(t, "while the job is cancelled", insert(r.cancelled(t).ID, "", ""))
	r.mustRefuse(t, "it allows no hedge", insert(running.job.ID, ", lane", ", 1"))
	r.mustRefuse(t, "an attempt starts as starting, not as running", insert(running.job.ID, ", state", ", 'running'"))
	r.mustRefuse(t, "an attempt starts as starting, not as failed", insert(running.job.ID, ", state, reason, recorded_by, finished_at", ", 'failed', 'rejected', 'me', now()"))
	r.mustRefuse(t, "the attempt read version 1, the job is at 0", strings.Replace(insert(running.job.ID, "", ""), "2, version", "2, version + 1", 1))
	r.mustRefuse(t, "attempts_job_number", strings.Replace(insert(running.job.ID, "", ""), "2, version", "1, version", 1))
	r.mustRefuse(t, "attempts_number_check", strings.Replace(insert(running.job.ID, "", ""), "2, version", "0, version", 1))
	r.mustRefuse(t, "onejob_name_not_blank", strings.Replace(insert(running.job.ID, "", ""), "SELECT id, '', provider", "SELECT id, '', ' '", 1))
	r.mustRefuse(t, "attempts_execution_unless_fenced", strings.Replace(insert(running.job.ID, "", ""), "gen_random_uuid()", "NULL", 1))
	r.mustRefuse(t, "attempts_result_until_decided", insert(running.job.ID, ", result", ", '1'"))
	r.mustRefuse(t, "attempts_lane_check", insert(hedgedJob.job.ID, ", lane", ", 2"))
}

func TestUsageThatCannotBeAddedUpIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	r.unknown(t)
	for _, usage := range []string{`[]`, `null`, `"x"`, `{"input_tokens":1.5}`, `{"output_tokens":-1}`, `{"images":1e3}`, `{"milliseconds":1000000001}`,
		`{"cached_input_tokens":"5"}`, `{"reasoning_tokens":null}`, `{"estimated":5}`, `{"input_tokens":99999999999999999999}`} {
		r.mustRefuse(t, "attempts_usage_adds_up", `UPDATE attempts SET usage = '`+usage+`'`)
	}
	if _, err := r.hand.Exec(t.Context(), `UPDATE attempts SET usage = '{"input_tokens":0,"images":1000000000,"estimated":true,"model":"m","other":[]}'`); err != nil {
		t.Error(err)
	}
	won := r.succeeded(t).job.ID
	r.mustRefuse(t, "ledger_usage_adds_up", `
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, usage, recorded_by)
		SELECT 'x', owner_id, 'cost', 1, 'USD', job_id, attempt_id, provider, '{"input_tokens":1.5}', 'x' FROM ledger WHERE job_id = '`+won+`' AND kind = 'charge'`)
}

func TestWhatIsWrittenOnceNeverChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := r.accepted(t, hedged)
	for column, value := range map[string]string{
		"id": "gen_random_uuid()", "owner_id": "'x'", "idempotency_key": "'x'", "workflow_id": "'x'", "kind": "'x'", "provider": "'x'",
		"fallbacks": "'{x}'", "hedge_after_ms": "NULL", "callback_url": "'x'", "fingerprint": "sha256('x')", "fingerprint_version": "2", "created_at": "now()",
	} {
		r.mustRefuse(t, "what identifies a job never changes", fmt.Sprintf("UPDATE jobs SET %s = %s WHERE id = '%s'", column, value, job.ID))
	}
	r.mustRefuse(t, "its input never changes", fmt.Sprintf(`UPDATE jobs SET input = '{"page":1}' WHERE id = '%s'`, job.ID))

	a := r.start(t, job, 1, 0)
	for column, value := range map[string]string{
		"job_id": fmt.Sprintf("'%s'", r.accepted(t).ID), "number": "9", "lane": "1", "provider": "'x'",
		"job_version": "7", "execution": "gen_random_uuid()", "started_at": "now()",
	} {
		r.mustRefuse(t, "what identifies an attempt never changes", fmt.Sprintf("UPDATE attempts SET %s = %s WHERE job_id = '%s'", column, value, a.job.ID))
	}
	answered := r.answered(t).job.ID
	for column, value := range map[string]string{
		"result": "'2'", "reason": "'x'", "recorded_by": "'x'", "finished_at": "now()", "detail": "'x'", "retry_after_ms": "1",
	} {
		r.mustRefuse(t, "its outcome never changes", fmt.Sprintf("UPDATE attempts SET %s = %s WHERE job_id = '%s'", column, value, answered))
	}
	r.mustRefuse(t, "its outcome never changes", fmt.Sprintf("UPDATE attempts SET retryable = true WHERE job_id = '%s'", r.failing(t).job.ID))
}

func TestResultIsWrittenOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	done := r.succeeded(t).job.ID
	for _, set := range []string{`result = '2'`, `completed_by = NULL, result = NULL`, `completed_by = 2`, `result = '{"total":"12.50"}'`} {
		r.mustRefuse(t, "its result was written by attempt 1 and never changes", fmt.Sprintf("UPDATE jobs SET %s WHERE id = '%s'", set, done))
	}
	for _, set := range []string{"discarded_at = now()", "decided_at = NULL", "decided_at = now()"} {
		r.mustRefuse(t, "it was decided on and stays so", fmt.Sprintf("UPDATE attempts SET %s WHERE job_id = '%s'", set, done))
	}
}

// fill is a hand that fills the slot of the job by the attempt of that number.
func fill(jobID string, number int) string {
	return fmt.Sprintf(`UPDATE jobs SET status = 'succeeded', version = version + 1, completed_by = %d, result = '1', finished_at = now() WHERE id = '%s'`, number, jobID)
}

func TestOnlyADecidedSuccessOfTheJobFillsItsSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.mustRefuse(t, "jobs_completed_by_attempt", fill(r.answered(t).job.ID, 2))            // another job may have one
	for _, a := range []attempt{r.failing(t), r.unknown(t), r.started(t), r.answered(t)} { // the last one is not decided on
		r.mustRefuse(t, "is not a success of version 0",
			slices.Concat([]string{fill(a.job.ID, 1)}, followUp(a.job.ID, onejob.StatusSucceeded))...)
	}
	discarded := r.answered(t).job.ID
	r.mustRefuse(t, "a decided result is the winner or is discarded",
		fmt.Sprintf(`UPDATE attempts SET decided_at = now(), discarded_at = now(), result = NULL WHERE job_id = '%s'`, discarded), fill(discarded, 1))
	undecided := r.answered(t).job.ID
	r.mustRefuse(t, "a decided result is the winner or is discarded",
		fmt.Sprintf(`UPDATE attempts SET decided_at = now(), result = NULL WHERE job_id = '%s'`, undecided))
	r.mustRefuse(t, "attempts_result_until_decided",
		fmt.Sprintf(`UPDATE attempts SET decided_at = now() WHERE job_id = '%s'`, undecided))
	r.mustRefuse(t, "it was decided on and stays so",
		fmt.Sprintf(`UPDATE attempts SET discarded_at = NULL WHERE job_id = '%s'`, r.lateAnswered(t).job.ID))
}

// lateAnswered inserts a job whose attempt was cancelled before its result came.
func (r rig) lateAnswered(t testing.TB) attempt {
	t.Helper()
	a := r.unknown(t)
	if _, err := r.store.CancelAttemptIfLive(t.Context(), a.job.ID, 1, decision()); err != nil {
		t.Fatal(err)
	}
	if recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, 1, a.success(`1`)); err != nil || !recorded.Late {
		t.Fatalf("record: %+v, %v", recorded, err)
	}
	return a
}

func TestJobWithAnUnresolvedAttemptDoesNotClose(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, a := range []attempt{r.started(t), r.answered(t)} {
		r.mustRefuse(t, "cannot become failed while an attempt is unresolved",
			fmt.Sprintf(`UPDATE jobs SET status = 'failed', error = '{}', finished_at = now() WHERE id = '%s'`, a.job.ID))
	}
	for _, a := range []attempt{r.started(t), r.unknown(t), r.answered(t)} {
		r.mustRefuse(t, "cannot become cancelled while an attempt is unresolved",
			fmt.Sprintf(`UPDATE jobs SET status = 'cancelled', version = version + 1, finished_at = now() WHERE id = '%s'`, a.job.ID))
	}
	r.mustRefuse(t, "jobs_closed_asks_for_nothing", fmt.Sprintf(`UPDATE jobs SET requested_provider = 'second' WHERE id = '%s'`, r.failed(t).job.ID))
}

func TestVersionCountsDecisionsAboutTheSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for set, job := range map[string]string{
		"version = 1":                                                       r.accepted(t).ID,
		"version = version + 1":                                             r.started(t).job.ID,
		"status = 'running', version = 1":                                   r.accepted(t).ID,
		"status = 'unknown', version = 1":                                   r.started(t).job.ID,
		"status = 'cancelled', finished_at = now()":                         r.accepted(t).ID,
		"status = 'cancelled', finished_at = now(), version = 2":            r.accepted(t).ID,
		"status = 'failed', finished_at = now(), error = '{}', version = 1": r.failing(t).job.ID,
		"status = 'running', finished_at = NULL, error = NULL":              r.failed(t).job.ID,
	} {
		r.mustRefuse(t, "version cannot go from", fmt.Sprintf("UPDATE jobs SET %s WHERE id = '%s'", set, job))
	}
}

func TestNothingIsDeletedAndHistoryIsNotRewritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.lateAnswered(t)
	for _, table := range []string{"jobs", "attempts", "decisions", "discarded_results"} {
		r.mustRefuse(t, "are never", "DELETE FROM "+table)
		r.mustRefuseTruncate(t, table)
	}
	r.mustRefuse(t, "rows of decisions are never changed", `UPDATE decisions SET reason = 'x'`)
	r.mustRefuse(t, "rows of discarded_results are never changed", `UPDATE discarded_results SET bytes = 0`)
}

func (r rig) mustRefuseTruncate(t *testing.T, table string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), r.hand, func(tx pgx.Tx) error {
		if err := exec(t.Context(), tx, "TRUNCATE "+table+" CASCADE"); err != nil {
			return err
		}
		return errUndone
	})
	if !strings.Contains(refusal(err), "are never") {
		t.Errorf("truncate %s: %v", table, err)
	}
}

// errUndone rolls back what a test tried.
var errUndone = errors.New("undone by the test")

func TestHandWrittenDecisionIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := r.started(t).job.ID
	insert := func(columns, values string) string {
		return fmt.Sprintf(`INSERT INTO decisions (job_id, action, decided_by, token%s) VALUES ('%s', 'cancel-job', 'ops', 't'%s)`, columns, job, values)
	}
	r.mustRefuse(t, "decisions_token_key", insert("", ""), insert("", ""))
	r.mustRefuse(t, "decisions_attempt_of_job", insert(", attempt", ", 2"))
	r.mustRefuse(t, "decisions_outcome_check", insert(", outcome", ", 'unknown'"))
	r.mustRefuse(t, "decisions_reason_check", insert(", reason", ", repeat('r', 4097)"))
	r.mustRefuse(t, "decisions_action_check", strings.Replace(insert("", ""), "cancel-job", "delete-job", 1))
	r.mustRefuse(t, "onejob_name_not_blank", strings.Replace(insert("", ""), "'ops'", "' '", 1))
	r.mustRefuse(t, "onejob_name_not_blank", strings.Replace(insert("", ""), "'t'", "''", 1))
}

// exec runs a statement in the transaction of a test that undoes it.
func exec(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	_, err := tx.Exec(ctx, sql, args...)
	return err
}
