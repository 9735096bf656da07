package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	sdkpb "go.temporal.io/api/sdk/v1"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/starter"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

// right and wrong are what models answer to 'add 1 and 2', in the simulated provider's words.
const (
	right = `"answer": {"sum": 3}`
	wrong = `"answer": {"sum": 4}`
)

// stand is a simulated provider of a test: its own simulator, since a contract's prompt leaves
// no room for directives.
type stand struct{ name, is, path, simulate, members string }

// chat, deep, claude and plainHTTP are providers of that name that answer as the directives
// say; members are further ones of theirs in onejob.yaml.
func chat(name, simulate string, members ...string) stand {
	return stand{name, "openai", "/openai/v1", simulate, model(name, members)}
}

func deep(name, simulate string, members ...string) stand {
	return chat(name, simulate, append(members, "api: responses", "background: true", "lookup: {interval: 50ms, max_interval: 200ms}")...)
}

func claude(name, simulate string, members ...string) stand {
	return stand{name, "anthropic", "/anthropic", simulate, model(name, members)}
}

func plainHTTP(name, simulate string, members ...string) stand {
	return stand{name, "http", "/v1/run/" + name, simulate, strings.Join(members, ", ")}
}

func model(name string, members []string) string {
	return strings.Join(append(members, "model: m-"+name, "unpriced: allow"), ", ")
}

// gated is a system whose kinds have contracts: "sum", and "patient-sum", whose jobs wait for
// a certificate.
type gated struct {
	*system
	simulators []*simulator.Client
}

func newGatedSystem(t *testing.T, stands ...stand) gated {
	g := gated{system: newSystem(t)}
	text := "providers:\n"
	for _, p := range stands {
		url := g.simulate(p.simulate)
		g.simulators = append(g.simulators, simulator.NewClient(url))
		text += fmt.Sprintf("  %s: {type: %s, url: %q, listen_for: 1m, %s}\n", p.name, p.is, url+p.path, p.members)
	}
	text += `
kinds:
  sum: {side_effects: none, contract: testdata/sum.yaml, suspend: {violations: 2}}
  patient-sum: {side_effects: none, contract: testdata/patient-sum.yaml, uncertified: wait}
worker: {heartbeat_timeout: 2s, drain: 1s}
`
	var err error
	if g.config, err = config.Parse("onejob.yaml", []byte(text), func(string) (string, bool) { return callbackSecret, true }); err != nil {
		t.Fatal(err)
	}
	g.submitAs()
	return g
}

// simulate runs a simulated provider that does to every request as the directives say, and
// returns its URL.
func (s *system) simulate(directives string) string {
	s.t.Helper()
	var d simulator.Directives
	if err := json.Unmarshal([]byte("{"+directives+"}"), &d); err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	sim := simulator.New(simulator.Options{CallbackSecret: callbackSecret, Plan: simulator.Plan{Scripts: []simulator.Script{{Answers: []simulator.Directives{d}}}}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx, listener) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("simulated provider: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// counts returns how often the job's requests arrived and were executed, at all providers.
func (g gated) counts(jobID string) (requests, executions int) {
	g.t.Helper()
	for _, sim := range g.simulators {
		counts, err := sim.Executions(g.t.Context(), simulator.Subject{Job: jobID})
		if err != nil {
			g.t.Fatal(err)
		}
		requests, executions = requests+counts.Requests, executions+counts.Executions
	}
	return requests, executions
}

// add returns a request to add one and two.
func (s gated) add(key string, providers ...string) onejob.Request {
	return onejob.Request{
		Owner: s.owner, Key: key, Kind: "sum", Provider: providers[0], Fallbacks: providers[1:], Input: json.RawMessage(`{"numbers": [1, 2]}`),
	}
}

// proof is what the provider has to prove for the kind.
func (s gated) proof(kind, name string) postgres.Proved {
	s.t.Helper()
	catalog := s.config.Catalog()
	known, ok := catalog.Providers[name]
	if !ok {
		s.t.Fatalf("no provider %s", name)
	}
	return postgres.Proved{ContractSHA256: catalog.Kinds[kind].Contract.SHA256, Provider: name, Model: known.Model, Adapter: known.Adapter}
}

func (s gated) certify(kind, name string) int64 {
	s.t.Helper()
	return pgtest.Certify(s.t, s.psql, kind, s.proof(kind, name), time.Hour)
}

// wantAttempts fails unless the job's attempts were on those providers and ended so: each is
// "provider state reason".
func (s *system) wantAttempts(d starter.Detail, want ...string) {
	s.t.Helper()
	var got []string
	for _, a := range d.Attempts {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", a.Provider, a.State, a.Reason)))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.t.Errorf("the attempts are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func wantSum(t *testing.T, d starter.Detail) {
	t.Helper()
	if d.Status != onejob.StatusSucceeded || string(d.Result) != `{"sum": 3}` && string(d.Result) != `{"sum":3}` {
		t.Errorf("the job is %s with the result %s, want what the model wrote", d.Status, d.Result)
	}
}

func TestResultOfAContractIsWhatTheModelWroteWhoeverItIs(t *testing.T) {
	s := newGatedSystem(t, chat("gpt", right), deep("deep", right), claude("opus", right), chat("local", right, "stream: true"))
	s.startWorker()
	for _, name := range []string{"gpt", "deep", "opus", "local"} {
		done := s.wait(s.submit(s.add(name, name)).JobID)
		wantSum(t, done)
		s.wantAttempts(done, name+" succeeded")
	}
}

func TestViolationGoesToTheNextCertifiedProvider(t *testing.T) {
	s := newGatedSystem(t, chat("first", wrong), chat("stranger", right), claude("proven", right))
	s.certify("sum", "proven")
	s.startWorker()
	job := s.submit(s.add("violated", "first", "stranger", "proven"))
	done := s.wait(job.JobID)
	wantSum(t, done)
	s.wantAttempts(done, "first failed contract_violation", "stranger failed not_certified", "proven succeeded")
	if detail := done.Attempts[0].Detail; !strings.Contains(detail, "rule adds-up: the sum is the sum of the numbers") {
		t.Errorf("the violation says %q", detail)
	}
	if detail := done.Attempts[1].Detail; !strings.Contains(detail, "'onejob contract verify testdata/sum.yaml --provider stranger'") {
		t.Errorf("the skipped provider says %q", detail)
	}
	if _, n := s.counts(job.JobID); n != 2 {
		t.Errorf("%d providers were called", n)
	}
	s.mustHaveBooked(job.JobID, 2, 1) // what broke the contract was paid for; who was skipped was not
}

func TestEveryWayToBreakTheContractIsFoundInProduction(t *testing.T) {
	for name, c := range map[string]struct{ simulate, finding string }{
		"extra key":       {`"answer": {"sum": 3, "mood": "fine"}`, "unknown_key mood"},
		"fenced":          {`"answer": "` + "```json\\n{\\\"sum\\\": 3}\\n```" + `"`, "fenced"},
		"prose around":    {`"answer": "Sure: {\"sum\": 3}"`, "surrounded"},
		"wrong meaning":   {wrong, "rule adds-up"},
		"another type":    {`"answer": {"sum": "3"}`, "schema at /sum"},
		"cut, and valid":  {right + `, "end": "length"`, "length"},
		"no text":         {`"end": "empty"`, "no_choice"},
		"a tool's answer": {right + `, "end": "tool_calls"`, "end tool_calls"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGatedSystem(t, chat("gpt", c.simulate))
			s.startWorker()
			failed := s.wait(s.submit(s.add("broken", "gpt")).JobID)
			s.wantAttempts(failed, "gpt failed contract_violation")
			if detail := failed.Attempts[0].Detail; !strings.HasPrefix(detail, c.finding) {
				t.Errorf("the detail is %q", detail)
			}
		})
	}
}

func TestWithNobodyCertifiedTheJobFailsWithTheRemedy(t *testing.T) {
	s := newGatedSystem(t, chat("first", wrong), chat("stranger", right))
	s.startWorker()
	failed := s.wait(s.submit(s.add("failed", "first", "stranger")).JobID)
	s.wantAttempts(failed, "first failed contract_violation", "stranger failed not_certified")
	if failed.Error == nil || failed.Error.Code != onejob.ReasonNotCertified || !strings.Contains(failed.Error.Message, "'onejob contract verify testdata/sum.yaml --provider stranger'") {
		t.Errorf("the job's error is %+v", failed.Error)
	}
}

// A fallback that is skipped takes nothing from the provider before it: as without fallbacks,
// one that is busy is tried as often as may be.
func TestSkippedFallbackLeavesARetryToTheProviderBeforeIt(t *testing.T) {
	s := newGatedSystem(t, chat("busy", `"status": 429`), chat("stranger", right))
	s.startWorker()
	failed := s.wait(s.submit(s.add("busy", "busy", "stranger")).JobID)
	s.wantAttempts(failed, "busy failed refused", "busy failed refused", "stranger failed not_certified", "busy failed refused")
}

func TestManualAttemptOnAnUncertifiedProviderIsRefusedAndCanBeForced(t *testing.T) {
	s := newGatedSystem(t, chat("first", wrong), chat("stranger", right))
	s.startWorker()
	job := s.submit(s.add("manual", "first"))
	s.wait(job.JobID)
	err := s.starter.StartAttempt(t.Context(), job.JobID, "stranger", starter.Decision{By: "ops"})
	if !errors.Is(err, onejob.ErrNotCertified) || !strings.Contains(err.Error(), "--provider stranger") || !strings.Contains(err.Error(), "--uncertified") {
		t.Fatalf("asked: %v", err)
	}
	if err := s.starter.StartAttempt(t.Context(), job.JobID, "stranger", starter.Decision{By: "grace", Reason: "the owner waits", Uncertified: true}); err != nil {
		t.Fatalf("forced: %v", err)
	}
	done := s.awaitStatus(job.JobID, onejob.StatusSucceeded)
	wantSum(t, done)
	if n := s.count(`SELECT count(*) FROM attempts a JOIN decisions d ON d.id = a.uncertified WHERE a.job_id = $1 AND a.number = 2 AND d.decided_by = 'grace'`, job.JobID); n != 1 {
		t.Error("the attempt does not say who forced it")
	}
}

func TestJobThatMayWaitGoesOnWhenItsProviderIsAskedForWithACertificate(t *testing.T) {
	s := newGatedSystem(t, chat("first", wrong), chat("stranger", right))
	s.startWorker()
	r := s.add("waiting", "first", "stranger")
	r.Kind = "patient-sum"
	job := s.submit(r)
	s.eventually("the job waits, and says for what", func() bool {
		return strings.Contains(s.currentDetails(job.WorkflowID), "onejob contract verify FILE --provider stranger")
	})
	waiting := s.get(job.JobID)
	s.wantAttempts(waiting, "first failed contract_violation", "stranger failed not_certified")
	if waiting.Status != onejob.StatusRunning {
		t.Errorf("meanwhile the job is %s", waiting.Status)
	}
	if err := s.update(job.WorkflowID, workflows.UpdateStartAttempt, workflows.AttemptRequest{Provider: "stranger", By: "ops"}); !errors.Is(err, onejob.ErrNotCertified) {
		t.Errorf("the update start-attempt: %v", err)
	}
	s.certify("patient-sum", "stranger")
	if err := s.starter.StartAttempt(t.Context(), job.JobID, "stranger", starter.Decision{By: "ops"}); err != nil {
		t.Fatal(err)
	}
	wantSum(t, s.wait(job.JobID))
}

// currentDetails is what the Web UI shows of the workflow.
func (s *system) currentDetails(workflowID string) string {
	s.t.Helper()
	var metadata sdkpb.WorkflowMetadata
	value, err := s.temporal.QueryWorkflow(s.t.Context(), workflowID, "", "__temporal_workflow_metadata")
	if err == nil {
		err = value.Get(&metadata)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return metadata.GetCurrentDetails()
}

func TestJobThatWaitsFindsItsCertificateByItself(t *testing.T) {
	s := newGatedSystem(t, chat("first", wrong), chat("stranger", right), chat("proven", right))
	s.startWorker(looksSoon)
	r := s.add("waiting", "first", "stranger", "proven")
	r.Kind = "patient-sum"
	job := s.submit(r)
	s.eventually("the job waits", func() bool { return len(s.get(job.JobID).Attempts) == 3 })
	s.certify("patient-sum", "proven")
	done := s.wait(job.JobID)
	wantSum(t, done)
	s.wantAttempts(done, "first failed contract_violation", "stranger failed not_certified", "proven failed not_certified", "proven succeeded")
}

func TestHedgeSkipsWhoeverIsNotCertified(t *testing.T) {
	s := newGatedSystem(t, chat("silent", right+`, "hold_after": "never"`), chat("stranger", right), claude("proven", right))
	s.certify("sum", "proven")
	s.startWorker()
	r := s.add("hedged", "silent", "stranger", "proven")
	r.HedgeAfter = onejob.Duration(300 * time.Millisecond)
	done := s.wait(s.submit(r).JobID)
	wantSum(t, done)
	s.wantAttempts(done, "silent cancelled slot_taken", "stranger failed not_certified", "proven succeeded")
	if done.Attempts[1].Lane != 1 || done.Attempts[2].Lane != 1 {
		t.Errorf("the hedges are %+v", done.Attempts[1:])
	}
}

// However an answer is heard, it is judged.
func TestLateAndSoughtAnswersAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		provider stand
		attempt  string
	}{
		"late, wrong":      {chat("gpt", wrong+`, "late": "700ms"`), "gpt failed contract_violation"},
		"late, right":      {chat("gpt", right+`, "late": "700ms"`), "gpt succeeded"},
		"looked up, wrong": {deep("gpt", wrong+`, "run_for": "700ms"`), "gpt failed contract_violation"},
		"looked up, right": {deep("gpt", right+`, "run_for": "700ms"`), "gpt succeeded"},
		"asked again, wrong": {chat("gpt", wrong+`, "honour_key": true, "execute_then_drop": true`, "idempotency: {header: Idempotency-Key, window: 24h, reasks: 3}"),
			"gpt failed contract_violation"},
		"asked again, right": {chat("gpt", right+`, "honour_key": true, "execute_then_drop": true`, "idempotency: {header: Idempotency-Key, window: 24h, reasks: 3}"),
			"gpt succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGatedSystem(t, c.provider)
			s.startWorker()
			r := s.add("sought", "gpt")
			r.Timeout = onejob.Duration(200 * time.Millisecond)
			done := s.wait(s.submit(r).JobID)
			s.wantAttempts(done, c.attempt)
		})
	}
}

func TestCallbackIsJudged(t *testing.T) {
	for name, c := range map[string]struct{ result, attempt string }{
		"wrong": {`{"sum": 4}`, "calling failed contract_violation"}, "right": {`{"sum": 3}`, "calling succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGatedSystem(t, plainHTTP("calling", `"accept": true, "run_until": "never"`, `callback: {secret: "${env:CALLBACK_SECRET}"}`))
			base := s.startWorkerWithCallbacks()
			job := s.submit(s.add("called-back", "calling"))
			s.eventually("the provider has taken it", func() bool { return s.firstState(job.JobID) == onejob.AttemptRunning })
			if status := s.callBack(base, job.JobID, "msg-1", `{"id": "r-1", "status": "succeeded", "result": `+c.result+`}`, callbackSecret, time.Now()); status != 200 {
				t.Fatalf("the callback is answered with %d", status)
			}
			s.wantAttempts(s.wait(job.JobID), c.attempt)
		})
	}
}

func TestResolvedResultIsJudged(t *testing.T) {
	s := newGatedSystem(t, chat("gpt", right+`, "hold_after": "never"`))
	s.startWorker()
	r := s.add("resolved", "gpt")
	r.Timeout = onejob.Duration(200 * time.Millisecond)
	job := s.submit(r)
	s.awaitStatus(job.JobID, onejob.StatusUnknown)
	err := s.starter.ResolveAttempt(t.Context(), job.JobID, 1, onejob.AttemptSucceeded, json.RawMessage(`{"sum": 4}`), starter.Decision{By: "ops"})
	if !errors.Is(err, onejob.ErrInvalidRequest) || !strings.Contains(err.Error(), "adds-up") {
		t.Errorf("a wrong result: %v", err)
	}
	if err := s.starter.ResolveAttempt(t.Context(), job.JobID, 1, onejob.AttemptSucceeded, json.RawMessage(`{"sum": 3}`), starter.Decision{By: "ops"}); err != nil {
		t.Fatal(err)
	}
	wantSum(t, s.wait(job.JobID))
}

func TestInputThatDoesNotFitTheContractIsRefusedWhereItIsKnown(t *testing.T) {
	s := newGatedSystem(t, chat("gpt", right), chat("other", right))
	s.certify("sum", "other")
	s.startWorker()
	r := s.add("unfit", "gpt", "other")
	r.Input = json.RawMessage(`{"numbers": ["one", 2]}`)
	if _, err := s.starter.Submit(t.Context(), r); !errors.Is(err, onejob.ErrInvalidRequest) || !strings.Contains(err.Error(), "/numbers/0") {
		t.Errorf("submitted where the contract is known: %v", err)
	}
	unaware := s.config.Catalog()
	unaware.Kinds["sum"] = onejob.Kind{}
	s.starter = starter.New(starter.Options{Store: s.store, Temporal: s.temporal, Catalog: unaware, TaskQueue: s.queue, Logger: quiet})
	job := s.submit(r)
	s.wantAttempts(s.wait(job.JobID), "gpt failed rejected", "other failed rejected")
	if detail := s.get(job.JobID).Attempts[0].Detail; !strings.Contains(detail, "not sent") || !strings.Contains(detail, "/numbers/0") {
		t.Errorf("the attempt says %q", detail)
	}
	if n, _ := s.counts(job.JobID); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestViolationsInProductionSuspendTheCertificate(t *testing.T) {
	s := newGatedSystem(t, chat("first", wrong), chat("drifted", wrong))
	id := s.certify("sum", "drifted")
	metrics := worker.NewMetrics()
	s.startWorker(func(c *worker.Config) { c.Metrics = metrics })
	for _, key := range []string{"one", "two"} {
		s.wantAttempts(s.wait(s.submit(s.add(key, "first", "drifted")).JobID), "first failed contract_violation", "drifted failed contract_violation")
	}
	s.eventually("the certificate is suspended", func() bool {
		return s.count(`SELECT count(*) FROM certificates WHERE id = $1 AND suspended_at IS NOT NULL`, id) == 1
	})
	failed := s.wait(s.submit(s.add("three", "first", "drifted")).JobID)
	s.wantAttempts(failed, "first failed contract_violation", "drifted failed not_certified")
	if !strings.Contains(failed.Error.Message, "suspended: 2 replies in production broke the contract within 1h0m0s") {
		t.Errorf("the job's error is %+v", failed.Error)
	}
	if text := s.scrape(metrics); !strings.Contains(text, `onejob_certificates_suspended_total{provider="drifted"} 1`) {
		t.Error("the metric does not count the suspension")
	}
}

// scrape returns the metrics as they are served.
func (s *system) scrape(metrics *worker.Metrics) string {
	s.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	served := make(chan error, 1)
	go func() {
		served <- worker.Health{Store: s.store, Temporal: s.temporal, Metrics: metrics}.Serve(ctx, listener)
	}()
	response, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	stop()
	if err := errors.Join(err, <-served); err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// plain hides what the adapter can do beside calling.
type plain struct{ provider.Adapter }

func TestAdapterThatCannotBeAskedByAContractIsNotAsked(t *testing.T) {
	s := newGatedSystem(t, chat("gpt", right))
	s.startWorker(func(c *worker.Config) {
		p, _ := c.Providers.Get("gpt")
		p.Adapter = plain{p.Adapter}
		c.Providers = c.Providers.With(p)
	})
	job := s.submit(s.add("own", "gpt"))
	failed := s.wait(job.JobID)
	s.wantAttempts(failed, "gpt failed rejected")
	if n, _ := s.counts(job.JobID); n != 0 || !strings.Contains(failed.Attempts[0].Detail, "cannot be asked by a contract") {
		t.Errorf("the attempt is %+v", failed.Attempts[0])
	}
}

func TestContractOfTheTestsIsThatOfTheDocumentation(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../docs/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile("testdata/sum.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), "```yaml\n"+string(first)+"```") {
		t.Error("testdata/sum.yaml is not the first contract of docs/contracts.md")
	}
}
