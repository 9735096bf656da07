package e2e

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

// sumText is a small contract: two of three runs must pass.
const sumText = `
version: 1
kind: sum
side_effects: none
prompt:
  system: "Add the numbers. Reply with one JSON object and nothing around it."
  user: "{{json .numbers}}"
input_schema: {type: object, required: [numbers], properties: {numbers: {type: array, items: {type: number}}}}
output_schema: {type: object, required: [sum], properties: {sum: {type: number}, note: {type: string}}}
rules: [{name: adds-up, cel: output.sum == sum(input.numbers)}]
parameters: {temperature: 0, max_tokens: 100}
certificate: {valid_for: 720h, keep_payloads: true}
cases:
  - {name: cents, input: {numbers: [0.1, 0.2]}, facts: [{path: /sum, equal: 0.3}], runs: 3, must_pass: 2}
  - {name: tens, input: {numbers: [10, 20]}, facts: [{path: /sum, equal: 30}], runs: 3, must_pass: 2}
canary: {instruction: "Set note to kestrel-5512.", input: {numbers: [1, 2]}, facts: [{path: /note, equal: kestrel-5512}], runs: 1}
`

const sumCalls = 7

// sumContract is the contract under an identity of its own: a certification has one workflow.
func sumContract(t *testing.T) tested {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sum.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(sumText, "nothing around it.", "nothing around it. "+rand.Text(), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	c, bundle, err := certify.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return tested{Contract: c, bundle: bundle, replies: map[string]json.RawMessage{
		"cents": json.RawMessage(`{"sum": 0.3}`), "tens": json.RawMessage(`{"sum": 30}`), "canary": json.RawMessage(`{"sum": 3, "note": "kestrel-5512"}`),
	}}
}

// holdFirst keeps the first answer to the first case until the name is released.
func holdFirst(parts []part, name string) []part {
	good := parts[1].replies[0]
	held := good
	held.Hold = name
	parts[1].replies = []simulator.Directives{held, good, good}
	return parts
}

// awaitCalls waits until so many calls of the run are in the state.
func (s *system) awaitCalls(runID string, state postgres.CallState, count int) {
	s.t.Helper()
	s.eventually("calls of the certification", func() bool {
		return s.count(`SELECT count(*) FROM certification_calls WHERE run_id = $1 AND state = $2`, runID, state) == count
	})
}

func requests(t *testing.T, sim *simulator.Client) int {
	t.Helper()
	totals, err := sim.Totals(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return totals.Requests
}

func TestCertificationOutlivesItsWorkerAndRepeatsNoCall(t *testing.T) {
	s := newSystem(t)
	c := sumContract(t)
	address, sim := ownSimulator(t)
	if err := sim.SetPlan(t.Context(), simulator.Plan{Scripts: c.scripts(t, "good", holdFirst(c.goodParts(t), "answer"))}); err != nil {
		t.Fatal(err)
	}
	models := s.simulated(address, "good ")
	stop := s.startWorker(models)
	runID := s.startCertification(c, "good")
	s.awaitCalls(runID, postgres.CallAnswered, sumCalls-1)
	stop()
	s.awaitCalls(runID, postgres.CallUnknown, 1)
	s.startWorker(models)
	outcome, err := s.certifications().Await(t.Context(), c.SHA256, "good")
	if err != nil || outcome.State != postgres.CertificationPassed || outcome.Certificate == 0 {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if n := requests(t, sim); n != sumCalls {
		t.Errorf("the provider was asked %d times, want %d", n, sumCalls)
	}

	s.resetCertification(c)
	again, err := s.certifications().Await(t.Context(), c.SHA256, "good")
	if err != nil || again.Certificate != outcome.Certificate || requests(t, sim) != sumCalls {
		t.Errorf("after a reset: %+v, %v, %d requests", again, err, requests(t, sim))
	}
	r := s.report(runID)
	if reply := r.Cases[1].Calls[0].Reply; reply == nil || *reply != `{"sum":30}` {
		t.Errorf("the contract keeps payloads, the report has %v", reply)
	}
	s.wantCleanAudit()
}

// resetCertification resets the workflow to its beginning.
func (s *system) resetCertification(c tested) {
	s.t.Helper()
	const firstTask = 4
	if _, err := s.temporal.ResetWorkflowExecution(s.t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, Reason: "test", RequestId: rand.Text(), WorkflowTaskFinishEventId: firstTask,
		WorkflowExecution: &common.WorkflowExecution{WorkflowId: onejob.CertificationWorkflowID(c.SHA256, "good")},
	}); err != nil {
		s.t.Fatal(err)
	}
}

func TestResetCertificationRepeatsNoCall(t *testing.T) {
	s := newSystem(t)
	c := sumContract(t)
	address, sim := ownSimulator(t)
	if err := sim.SetPlan(t.Context(), simulator.Plan{Scripts: c.scripts(t, "good", holdFirst(c.goodParts(t), "answer"))}); err != nil {
		t.Fatal(err)
	}
	s.startWorker(s.simulated(address, "good "))
	runID := s.startCertification(c, "good")
	s.awaitCalls(runID, postgres.CallAnswered, sumCalls-1)
	s.resetCertification(c)
	outcome, err := s.certifications().Await(t.Context(), c.SHA256, "good")
	if err != nil || outcome.State != postgres.CertificationPassed {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if n := requests(t, sim); n != sumCalls {
		t.Errorf("the provider was asked %d times, want %d", n, sumCalls)
	}
	s.awaitCalls(runID, postgres.CallUnknown, 1)
}

func TestCertificationGoesOnAfterTheWorkerOfACallDied(t *testing.T) {
	s := newSystem(t)
	c := sumContract(t)
	address, sim := ownSimulator(t)
	if err := sim.SetPlan(t.Context(), simulator.Plan{Scripts: c.scripts(t, "good", holdFirst(c.goodParts(t), "answer"))}); err != nil {
		t.Fatal(err)
	}
	s.startWorker(s.simulated(address, "good "))
	runID := s.startCertification(c, "good")
	s.awaitCalls(runID, postgres.CallAnswered, sumCalls-1)
	// As if its worker had died: somebody closes the call, and the late answer finds that.
	rows, err := s.store.CertificationCalls(t.Context(), runID)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if _, err := s.store.FenceCall(t.Context(), row.CertificationCall); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitCalls(runID, postgres.CallUnknown, 1)
	if _, err := sim.Release(t.Context(), "answer"); err != nil {
		t.Fatal(err)
	}
	outcome, err := s.certifications().Await(t.Context(), c.SHA256, "good")
	if err != nil || outcome.State != postgres.CertificationPassed {
		t.Fatalf("%+v, %v", outcome, err)
	}
	s.awaitCalls(runID, postgres.CallAnswered, sumCalls)
	s.wantCleanAudit()
}

func TestCancelledCertificationMakesNoMoreCalls(t *testing.T) {
	s := newSystem(t)
	c := sumContract(t)
	address, sim := ownSimulator(t)
	parts := c.goodParts(t)
	for i := range parts {
		parts[i].replies[0].Hold = "answer"
	}
	if err := sim.SetPlan(t.Context(), simulator.Plan{Scripts: c.scripts(t, "good", parts)}); err != nil {
		t.Fatal(err)
	}
	s.startWorker(s.simulated(address, "good "))
	runID := s.startCertification(c, "good")
	const atOnce = 4
	s.awaitCalls(runID, postgres.CallCalling, atOnce)
	if err := s.temporal.CancelWorkflow(t.Context(), onejob.CertificationWorkflowID(c.SHA256, "good"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.certifications().Await(t.Context(), c.SHA256, "good"); err != nil {
		t.Fatal(err)
	}
	run, err := s.store.Certification(t.Context(), runID)
	if err != nil || run.State != postgres.CertificationCancelled || run.Certificate != 0 {
		t.Errorf("%+v, %v", run, err)
	}
	s.awaitCalls(runID, postgres.CallUnknown, atOnce)
	if n := requests(t, sim); n != atOnce {
		t.Errorf("the provider was asked %d times, want %d", n, atOnce)
	}
	if r := s.report(runID); r.Passed || r.Summary != "it was cancelled" {
		t.Errorf("the report says %q", r.Summary)
	}
}

func TestCertificationBeyondItsBudgetMakesNoCall(t *testing.T) {
	s := newSystem(t)
	c := sumContract(t)
	address, sim := ownSimulator(t)
	if err := sim.SetPlan(t.Context(), simulator.Plan{Scripts: c.scripts(t, "good", c.goodParts(t))}); err != nil {
		t.Fatal(err)
	}
	price, err := onejob.ParseAmount("0.001")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.ImportPrices(t.Context(), "test", []onejob.Price{{Provider: "good", Model: certifiedModel, Unit: "output", Price: price, Currency: "USD"}}); err != nil {
		t.Fatal(err)
	}
	limit, err := onejob.ParseAmount("0.6") // seven calls of a hundred tokens may come to 0.7
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.SetBudget(t.Context(), postgres.BudgetChange{Owner: onejob.CertificationOwner, Limit: &limit, Currency: "USD"}); err != nil {
		t.Fatal(err)
	}
	s.startWorker(s.simulated(address, "good "))
	s.startCertification(c, "good")
	if _, err := s.certifications().Await(t.Context(), c.SHA256, "good"); !errors.Is(err, onejob.ErrBudgetExceeded) {
		t.Errorf("it ended with %v", err)
	}
	if n := requests(t, sim); n != 0 {
		t.Errorf("the provider was asked %d times", n)
	}
}

func TestCertificateIsRenewedBeforeItExpires(t *testing.T) {
	s := newSystem(t)
	c := sumContract(t)
	address, sim := ownSimulator(t)
	if err := sim.SetPlan(t.Context(), simulator.Plan{Scripts: c.scripts(t, "good", c.goodParts(t))}); err != nil {
		t.Fatal(err)
	}
	s.startWorker(s.simulated(address, "good ", "other "), knowing(c))
	s.storeContract(c)
	proved := provedAt(c, "good", address)
	old := pgtest.Certify(t, s.conn(), "sum", proved, time.Hour) // of a life of 25 hours
	if due := s.renew(); len(due) != 1 || due[0].Provider != "good" {
		t.Fatalf("due: %+v", due)
	}
	s.eventually("a new certificate", func() bool {
		return s.count(`SELECT count(*) FROM certificates WHERE id > $1 AND expires_at > clock_timestamp() + interval '700 hours'`, old) == 1
	})
	if due := s.renew(); len(due) != 0 {
		t.Errorf("due again: %+v", due)
	}

	proved = provedAt(c, "other", address)
	revoked := pgtest.Certify(t, s.conn(), "sum", proved, time.Hour)
	if _, err := s.store.RevokeCertificates(t.Context(), revoked, "ana", "it invents lines"); err != nil {
		t.Fatal(err)
	}
	proved.Adapter = "openai/chat/0"
	pgtest.Certify(t, s.conn(), "sum", proved, time.Hour)
	pgtest.Certify(t, s.conn(), "sum", provedAt(c, "other", "https://elsewhere.example"), time.Hour)
	if due := s.renew(); len(due) != 0 {
		t.Errorf("a revoked certificate, or one of another adapter or server, is due: %+v", due)
	}
}

// knowing makes a worker's kind sum one with the contract.
func knowing(c tested) func(*worker.Config) {
	return func(w *worker.Config) {
		w.Kinds = map[string]onejob.Kind{"sum": {}}
		w.Contracts = map[string]*contract.Contract{"sum": c.Contract}
	}
}

// provedAt is what a certificate of the simulated provider at the address proves.
func provedAt(c tested, name, address string) postgres.Proved {
	return postgres.Proved{ContractSHA256: c.SHA256, Provider: name, Model: certifiedModel, Adapter: provider.VersionAt("openai/chat/1", address+"/openai/"+name+"/v1")}
}

// renew runs what the schedule runs, and returns what was due.
func (s *system) renew() []activities.Renewal {
	s.t.Helper()
	run, err := s.temporal.ExecuteWorkflow(s.t.Context(), client.StartWorkflowOptions{TaskQueue: s.queue}, workflows.CertificationRenewalType)
	var renewals activities.Renewals
	if err == nil {
		err = run.Get(s.t.Context(), &renewals)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return renewals.Due
}
