package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func TestHotStatementsFindTheirRowsByIndex(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.through(t, withParameter(t, r.url, "enable_seqscan", "off"))
	watched.story(t)
	r.countReads(t, watched.store)
	for _, table := range []string{"jobs", "attempts", "decisions", "discarded_results", "ledger", "outbox", "reservations", "budgets", "prices"} {
		read := r.count(t, `SELECT seq_scan FROM pg_stat_user_tables WHERE relname = $1`, table)
		found := r.count(t, `SELECT idx_scan FROM pg_stat_user_tables WHERE relname = $1`, table)
		if read > 0 || found == 0 && table != "discarded_results" {
			t.Errorf("%s: read whole %d times, by index %d times", table, read, found)
		}
	}
}

// countReads closes the store and waits for its connections to end: then the server has
// counted what they read.
func (r rig) countReads(t *testing.T, store *postgres.Store) {
	t.Helper()
	store.Close()
	deadline := time.Now().Add(patience)
	for r.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'onejob'`) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the store's connections did not end")
		}
	}
}

// story calls every method of the store that runs for a job.
func (r rig) story(t *testing.T) {
	t.Helper()
	r.succeeded(t)
	r.failed(t)
	r.cancelled(t)
	r.lateAnswered(t)
	r.outrun(t)
	r.closedUnder(t)
	a := r.unknown(t)
	r.progress(t, a.job.ID)
	_, adopted := r.store.AdoptAttempts(t.Context(), postgres.Adoption{JobID: a.job.ID, WorkflowID: a.job.WorkflowID, Fence: &postgres.Fence{Number: 2, Provider: "second"}})
	_, resolved := r.store.ResolveAttemptIfLive(t.Context(), a.job.ID, 0, onejob.AttemptFailed, nil, decision())
	_, asked := r.store.RequestAttemptIfNoneLives(t.Context(), a.job.ID, "second", decision())
	_, running := r.store.MarkRunningIfStarting(t.Context(), a.job.ID, 1, "ref-1")
	_, claimed := r.store.ClaimForReconcile(t.Context(), time.Minute, 10)
	_, counted := r.store.CountUnknown(t.Context())
	_, byKey := r.store.JobByKey(t.Context(), a.job.Owner, a.job.Key)
	_, listed := r.store.Jobs(t.Context(), postgres.Filter{Owner: a.job.Owner})
	_, result := r.result(t.Context(), a.job.ID)
	if err := errors.Join(adopted, resolved, asked, running, claimed, counted, byKey, listed, result); err != nil {
		t.Fatal(err)
	}
}

func TestReconcilerReadsOnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 20 {
		r.accepted(t)
	}
	due := r.accepted(t).ID
	if _, err := r.hand.Exec(t.Context(), `UPDATE jobs SET reconcile_at = now() WHERE id = $1`, due); err != nil {
		t.Fatal(err)
	}
	r.store.Close()
	watched := r.through(t, withParameter(t, r.url, "enable_seqscan", "off"))
	if jobs, err := watched.store.ClaimForReconcile(t.Context(), time.Minute, 50); err != nil || len(jobs) != 1 || jobs[0].ID != due {
		t.Fatalf("%+v, %v", jobs, err)
	}
	r.countReads(t, watched.store)
	if read := r.count(t, `SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_open'`); read != 1 {
		t.Errorf("%d entries read to find one job", read)
	}
}
