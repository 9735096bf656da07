package activities_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
)

// slow answers when it is let.
type slow struct{ answer chan struct{} }

func (s slow) Call(ctx context.Context, _ provider.Call) provider.Answer {
	select {
	case <-s.answer:
		return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage(`1`)}
	case <-ctx.Done():
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonConnectionLost}
	}
}

// teller reads the attempt when the workflow is told of it, and does then what comes next.
type teller struct {
	store *postgres.Store
	jobID string
	told  []onejob.Attempt
	then  func()
}

func (w *teller) AttemptChanged(ctx context.Context, _ string, _ int) error {
	attempts, err := w.store.Attempts(ctx, w.jobID)
	w.told = append(w.told, attempts...)
	w.then()
	return err
}

type nobody struct{}

func (nobody) AttemptBecame(string, onejob.AttemptState, onejob.Reason) {}
func (nobody) RaceLost(string)                                          {}
func (nobody) DuplicateAnswered()                                       {}
func (nobody) Audited(postgres.Audit)                                   {}
func (nobody) CertificateSuspended(string)                              {}
func (nobody) CertificatesStand([]postgres.Certificate)                 {}
func (nobody) Full(string) bool                                         { return false }
func (nobody) Begin(string) (end func())                                { return func() {} }
func (nobody) BeginSearch() (end func(), ok bool)                       { return func() {}, true }

// A provider that is silent past the timeout makes its attempt unknown, and its late answer
// still counts.
func TestSilentAttemptIsUnknownUntilItsLateAnswer(t *testing.T) {
	t.Parallel()
	store := pgtest.Store(t)
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	job := jobOfTestWorkflow(t, store)
	adapter := slow{make(chan struct{})}
	workflow := &teller{store: store, jobID: job.ID}
	workflow.then = func() { close(adapter.answer); workflow.then = func() {} }
	a := activities.New(activities.Options{
		Store: store, Providers: provider.NewRegistry(provider.Provider{Name: "slow", Adapter: adapter}), Tell: workflow, Observer: nobody{}, Listening: nobody{},
		Circuits: activities.NewCircuits(activities.CircuitOptions{Store: store, Logger: slog.New(slog.DiscardHandler)}), Logger: slog.New(slog.DiscardHandler),
	})
	env.RegisterActivity(a)
	_, err := env.ExecuteActivity(a.ExecuteAttempt, activities.AttemptInput{
		JobID: job.ID, Number: 1, Provider: "slow", Timeout: onejob.Duration(10 * time.Millisecond), ListenFor: onejob.Duration(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(workflow.told) != 2 || workflow.told[0].State != onejob.AttemptUnknown || workflow.told[0].Reason != onejob.ReasonTimeout || workflow.told[1].State != onejob.AttemptSucceeded {
		t.Errorf("the workflow was told of %+v", workflow.told)
	}
}

// jobOfTestWorkflow inserts the job of the workflow that the test's activities belong to.
func jobOfTestWorkflow(t *testing.T, store *postgres.Store) onejob.Job {
	t.Helper()
	job, err := onejob.NewJob(onejob.Request{Owner: "o", Key: "k", Kind: "ticket", Provider: "slow", Input: json.RawMessage("null")}, onejob.Catalog{
		Kinds:     map[string]onejob.Kind{"ticket": {}},
		Providers: map[string]onejob.ProviderDefaults{"slow": {Timeout: time.Second, ListenFor: time.Minute}},
	})
	if err != nil {
		t.Fatal(err)
	}
	job.WorkflowID = "default-test-workflow-id" // as package testsuite calls it
	if registered, err := store.InsertJobs(t.Context(), job); err != nil || !registered[0].Created {
		t.Fatalf("insert: %+v, %v", registered, err)
	}
	return job
}
