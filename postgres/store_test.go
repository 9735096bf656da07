package postgres_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func mustBe(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("want %v, got %v", want, err)
	}
}

func TestSecondInsertReturnsFirstJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.accepted(t)
	again, other := newJob(t), newJob(t)
	again.Owner, again.Key, again.WorkflowID = first.Owner, first.Key, first.WorkflowID
	other.Owner, other.Key, other.WorkflowID = first.Owner, first.Key, first.WorkflowID
	other.Fingerprint = bytes.Repeat([]byte{7}, 32)
	answers, err := r.store.InsertJobs(t.Context(), again, other, newJob(t))
	if err != nil {
		t.Fatal(err)
	}
	if a := answers[0]; a.Created || a.Err != nil || a.Job.ID != first.ID {
		t.Errorf("the same intent: %+v", a)
	}
	mustBe(t, answers[1].Err, onejob.ErrConflict)
	if a := answers[1]; a.Created || a.Job.ID != first.ID {
		t.Errorf("another intent: %+v", a)
	}
	if !answers[2].Created {
		t.Errorf("a new one beside them: %+v", answers[2])
	}
	if got := r.count(t, `SELECT count(*) FROM jobs`); got != 2 {
		t.Errorf("%d jobs", got)
	}
}

func TestKeyTwiceInOneCallIsOneJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := newJob(t)
	second := first
	second.ID = uuid.Must(uuid.NewV7()).String()
	answers, err := r.store.InsertJobs(t.Context(), first, second)
	if err != nil || !answers[0].Created || answers[1].Created || answers[1].Job.ID != first.ID {
		t.Fatalf("%+v, %v", answers, err)
	}
	if answers, err := r.store.InsertJobs(t.Context()); err != nil || len(answers) != 0 {
		t.Fatalf("no jobs: %+v, %v", answers, err)
	}
}

func TestWorkflowIDOfAnotherJobIsNotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	job := newJob(t)
	job.WorkflowID = r.accepted(t).WorkflowID
	if answers, err := r.store.InsertJobs(t.Context(), job); err == nil || errors.Is(err, onejob.ErrServerUnreachable) {
		t.Fatalf("%+v, %v", answers, err)
	}
}

func TestJobIsReadAsItWasInserted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := r.accepted(t, hedged, func(q *onejob.Request) {
		q.CallbackURL, q.Labels = "https://example.com/done", map[string]string{"team": "blå"}
		q.Timeout, q.ListenFor, q.MaxAttempts = onejob.Duration(1500*time.Millisecond), onejob.Duration(time.Hour), 7
	})
	byID, err := r.store.Job(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	byKey, err := r.store.JobByKey(t.Context(), want.Owner, want.Key)
	if err != nil {
		t.Fatal(err)
	}
	want.Input, want.Reckoning, want.CreatedAt = nil, onejob.Reckoning{}, byID.CreatedAt
	for _, got := range []onejob.Job{byID, byKey} {
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("read\n%+v, inserted\n%+v", got, want)
		}
	}
	if byID.CreatedAt.Location() != time.UTC || time.Since(byID.CreatedAt).Abs() > time.Hour {
		t.Errorf("created at %v", byID.CreatedAt)
	}
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.started(t)
	for _, id := range []string{uuid.NewString(), "45", ""} {
		_, err := r.store.Job(t.Context(), id)
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.result(t.Context(), id)
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.StartAttemptIfNoneLives(t.Context(), postgres.Start{JobID: id, WorkflowID: "w", Number: 1, Provider: "primary", Execution: uuid.NewString()})
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.MarkUnknownIfLive(t.Context(), id, 1, postgres.Silence{Reason: onejob.ReasonTimeout})
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.RecordOutcomeIfLive(t.Context(), id, 1, a.failure())
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.CompleteJobIfOpen(t.Context(), id, 1)
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.FailJobIfNothingLives(t.Context(), id, 0)
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.AdoptAttempts(t.Context(), postgres.Adoption{JobID: id, WorkflowID: "w"})
		mustBe(t, err, onejob.ErrNotFound)
		_, err = r.store.CancelJobIfOpen(t.Context(), id, decision())
		mustBe(t, err, onejob.ErrNotFound)
	}
	_, err := r.store.JobByKey(t.Context(), a.job.Owner, "no such key")
	mustBe(t, err, onejob.ErrNotFound)
	_, err = r.store.MarkUnknownIfLive(t.Context(), a.job.ID, 2, postgres.Silence{Reason: onejob.ReasonTimeout})
	mustBe(t, err, onejob.ErrNotFound)
	_, err = r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, 2, a.failure())
	mustBe(t, err, onejob.ErrNotFound)
	_, err = r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 2)
	mustBe(t, err, onejob.ErrNotFound)
	_, err = r.store.CancelAttemptIfLive(t.Context(), a.job.ID, 2, decision())
	mustBe(t, err, onejob.ErrNotFound)
}

func TestListSelectsAndPages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var ids []string
	for range 5 {
		ids = append(ids, r.accepted(t, func(q *onejob.Request) { q.Owner = "lister" }).ID)
	}
	r.succeeded(t)
	slices.Reverse(ids)
	for _, f := range []postgres.Filter{{Owner: "lister"}, {Status: onejob.StatusAccepted}, {Owner: "lister", Kind: "invoice", Provider: "primary"}} {
		if got := r.list(t, f); !slices.Equal(got, ids) {
			t.Errorf("%+v: %v, want %v", f, got, ids)
		}
	}
	if got := r.list(t, postgres.Filter{Owner: "lister", Limit: 2, Before: ids[1]}); !slices.Equal(got, ids[2:4]) {
		t.Errorf("the second page: %v, want %v", got, ids[2:4])
	}
	if got := r.list(t, postgres.Filter{Provider: "nobody"}); len(got) != 0 {
		t.Errorf("nobody's: %v", got)
	}
}

func TestUnknownJobsAreListedByAge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var ids []string
	for range 3 {
		ids = append(ids, r.unknown(t).job.ID)
	}
	if got := r.list(t, postgres.Filter{Status: onejob.StatusUnknown}); !slices.Equal(got, ids) {
		t.Errorf("%v, want the oldest first: %v", got, ids)
	}
	if got := r.list(t, postgres.Filter{Status: onejob.StatusUnknown, Before: ids[0]}); !slices.Equal(got, ids[1:]) {
		t.Errorf("the second page: %v, want %v", got, ids[1:])
	}
}

func TestUnknownAttemptsAreCountedByProviderAndAge(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.unknown(t)
	r.unknown(t)
	r.started(t)
	counts, err := r.store.CountUnknown(t.Context())
	if want := []postgres.UnknownCount{{Provider: "primary", Age: "under_1m", Attempts: 2}}; err != nil || !slices.Equal(counts, want) {
		t.Errorf("%v, %v, want %v", counts, err, want)
	}
}

func (r rig) list(t *testing.T, f postgres.Filter) (ids []string) {
	t.Helper()
	jobs, err := r.store.Jobs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

// texts are JSON texts that a database or a decoder may be tempted to change.
func texts() map[string]string {
	return map[string]string{
		"escaped zero":      `{"zero": "\u0000", "lone": "\ud800"}`,
		"twenty digits":     `[12345678901234567890, -0, 0.10, 1e400, 1E-400]`,
		"spaces and order":  " { \"b\" : 1 ,\n\t\"a\" : [ ] }  ",
		"deep":              strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"scripts":           `"żółć 日本語 עברית 🧾 \u00e9 \/"`,
		"null":              `null`,
		"one megabyte":      `{"page": "` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`,
		"looks like a bind": `"$1 ?; -- \\ '' \""`,
	}
}

func TestPayloadsAreKeptExactly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, text := range texts() {
		job := newJob(t)
		job.Input = json.RawMessage(text)
		if _, err := r.store.InsertJobs(t.Context(), job); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := startOf(job, 1, 0)
		started, err := r.store.StartAttemptIfNoneLives(t.Context(), s)
		if err != nil || string(started.Input) != text || started.Kind != job.Kind {
			t.Errorf("%s: the input became %.80q (%v)", name, started.Input, err)
		}
		a := attempt{job: job, number: 1, token: s.Execution}
		r.record(t, a, a.success(text))
		if c, err := r.store.CompleteJobIfOpen(t.Context(), job.ID, 1); err != nil || !c.Won {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
		if result, err := r.result(t.Context(), job.ID); err != nil || string(result) != text {
			t.Errorf("%s: the result became %.80q (%v)", name, result, err)
		}
	}
}

func TestDiscardedPayloadLeavesHashAndSize(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, text := range texts() {
		a := r.answered(t, hedged)
		late := r.start(t, a.job, 2, 1)
		if _, err := r.store.CompleteJobIfOpen(t.Context(), a.job.ID, 1); err != nil {
			t.Fatal(err)
		}
		if recorded, err := r.store.RecordOutcomeIfLive(t.Context(), a.job.ID, 2, late.success(text)); err != nil || !recorded.Late {
			t.Fatalf("%s: %+v, %v", name, recorded, err)
		}
		hash := sha256.Sum256([]byte(text))
		if n := r.count(t, `SELECT count(*) FROM discarded_results WHERE job_id = $1 AND sha256 = $2 AND bytes = $3`, a.job.ID, hash[:], len(text)); n != 1 {
			t.Errorf("%s: no such trace", name)
		}
	}
}
