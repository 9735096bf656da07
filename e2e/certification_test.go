package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/worker"
	"github.com/onejob/onejob/workflows"
)

// tested is a contract with a good reply to each of its cases.
type tested struct {
	*contract.Contract
	bundle  certify.Bundle
	replies map[string]json.RawMessage
}

func exampleContract(t *testing.T, name string) tested {
	t.Helper()
	folder := filepath.Join("..", "examples", "contracts")
	c, bundle, err := certify.Load(filepath.Join(folder, name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "replies", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	k := tested{Contract: c, bundle: bundle}
	if err := json.Unmarshal(text, &k.replies); err != nil {
		t.Fatal(err)
	}
	return k
}

// model is the one whose tokenizer the simulated providers of type openai have.
const certifiedModel = "gpt-4o"

// part is what a simulated provider answers to a case: one reply after the other.
type part struct {
	k       contract.Case
	canary  bool
	replies []simulator.Directives
}

// goodParts are what a model of its word answers, the canary first: its instruction tells it from
// the cases.
func (c tested) goodParts(t *testing.T) (parts []part) {
	t.Helper()
	for i, k := range append([]contract.Case{c.Canary}, c.Cases...) {
		reply, ok := c.replies[k.Name]
		if !ok {
			t.Fatalf("no reply to %q", k.Name)
		}
		parts = append(parts, part{k: k, canary: i == 0, replies: []simulator.Directives{c.says(t, k, compacted(t, reply))}})
	}
	return parts
}

func compacted(t *testing.T, reply json.RawMessage) string {
	t.Helper()
	var text bytes.Buffer
	if err := json.Compact(&text, reply); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// says is the answer with the text, and the usage that the tokenizer counts.
func (c tested) says(t *testing.T, k contract.Case, text string) simulator.Directives {
	t.Helper()
	counter, _, _ := openai.Model(certifiedModel)
	prompt, err := c.RenderCase(k, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := counter.Count(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	out, err := counter.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	return simulator.Directives{Answer: marshalled(t, text), Usage: usageOf(in, len(out))}
}

func usageOf(in, out int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"input_tokens": %d, "output_tokens": %d}`, in, out))
}

func marshalled(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// scripts has the simulated provider of that name answer the parts.
func (c tested) scripts(t *testing.T, name string, parts []part) (scripts []simulator.Script) {
	t.Helper()
	for _, p := range parts {
		prompt, err := c.RenderCase(p.k, nil)
		if err != nil {
			t.Fatal(err)
		}
		contains := prompt.User
		if p.canary {
			contains = p.k.Instruction
		}
		scripts = append(scripts, simulator.Script{Only: name, Contains: contains, Answers: p.replies})
	}
	return scripts
}

// changed returns a reply with members changed.
func changed(t *testing.T, reply json.RawMessage, members map[string]any) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(reply, &object); err != nil {
		t.Fatal(err)
	}
	for name, value := range members {
		if object[name] = value; value == nil {
			delete(object, name)
		}
	}
	return string(marshalled(t, object))
}

// misbehaviour is what one simulated provider does wrong, in its answers to the first case or the
// canary alone, and what it must be refused for.
type misbehaviour struct {
	name    string
	spoil   func(t *testing.T, c tested, parts []part)
	check   string // that must fail, and no other
	code    contract.Code
	timeout string // of the provider
}

// spoilFirst changes what is said to the first case.
func spoilFirst(change func(t *testing.T, c tested, k contract.Case, good string) []simulator.Directives) func(*testing.T, tested, []part) {
	return func(t *testing.T, c tested, parts []part) {
		parts[1].replies = change(t, c, parts[1].k, compacted(t, c.replies[parts[1].k.Name]))
	}
}

// saysInstead changes the text that is said to the first case.
func saysInstead(change func(t *testing.T, good string) string) func(*testing.T, tested, []part) {
	return spoilFirst(func(t *testing.T, c tested, k contract.Case, good string) []simulator.Directives {
		return []simulator.Directives{c.says(t, k, change(t, good))}
	})
}

// wrongMeaning is right in form: the first text is another one, or the first number.
func wrongMeaning(t *testing.T, good string) string {
	t.Helper()
	members := map[string]any{"city": "Nowhere"}
	if strings.Contains(good, `"total"`) {
		members = map[string]any{"total": 1234567.5}
	}
	return changed(t, json.RawMessage(good), members)
}

var misbehaviours = []misbehaviour{
	{"extra-key", saysInstead(func(t *testing.T, good string) string {
		return changed(t, json.RawMessage(good), map[string]any{"confidence": 0.9})
	}), certify.CheckStructure, contract.CodeUnknownKey, ""},
	{"fenced", saysInstead(func(_ *testing.T, good string) string { return "```json\n" + good + "\n```" }), certify.CheckStructure, contract.CodeFenced, ""},
	{"prose", saysInstead(func(_ *testing.T, good string) string { return "Here is the JSON you asked for:\n" + good }), certify.CheckStructure, contract.CodeSurrounded, ""},
	{"deaf", func(t *testing.T, c tested, parts []part) { // to the system prompt
		parts[0].replies = []simulator.Directives{c.says(t, c.Canary, changed(t, c.replies[c.Canary.Name], map[string]any{"note": nil}))}
	}, certify.CheckCanary, contract.CodeFact, ""},
	{"wrong", saysInstead(wrongMeaning), certify.CheckMeaning, contract.CodeFact, ""},
	{"cut", spoilFirst(func(t *testing.T, c tested, k contract.Case, good string) []simulator.Directives {
		d := c.says(t, k, good[:len(good)/2])
		d.End = "length"
		return []simulator.Directives{d}
	}), certify.CheckStructure, contract.CodeEnd, ""},
	{"drifting", spoilFirst(func(t *testing.T, c tested, k contract.Case, good string) []simulator.Directives {
		return []simulator.Directives{c.says(t, k, good), c.says(t, k, wrongMeaning(t, good)), c.says(t, k, good)}
	}), certify.CheckMeaning, contract.CodeFact, ""},
	{"miscounting", spoilFirst(func(t *testing.T, c tested, k contract.Case, good string) []simulator.Directives {
		d := c.says(t, k, good)
		d.Usage = usageOf(9999, 1)
		return []simulator.Directives{d}
	}), certify.CheckRoundTrip, certify.CodeUsage, ""},
	{"slow", spoilFirst(func(t *testing.T, c tested, k contract.Case, good string) []simulator.Directives {
		d := c.says(t, k, good)
		d.Latency = simulator.Duration(600_000_000)
		return []simulator.Directives{d}
	}), certify.CheckRoundTrip, certify.CodeLatency, "timeout: 500ms, listen_for: 1m, "},
}

// tokens count as the worker of the command does.
func tokens(p provider.Provider) (contract.Counter, int, bool) { return openai.Model(p.Model) }

// simulated makes the system one whose providers are models, played by a simulated provider of
// the test's own, each by its own part.
func (s *system) simulated(address string, providers ...string) func(*worker.Config) {
	s.t.Helper()
	var text strings.Builder
	text.WriteString("providers:\n")
	for _, line := range providers {
		name, rest, _ := strings.Cut(line, " ")
		fmt.Fprintf(&text, "  %s: {type: openai, url: %q, model: %s, %sunpriced: allow}\n", name, address+"/openai/"+name+"/v1", certifiedModel, rest)
	}
	text.WriteString("kinds:\n  ticket: {side_effects: none, contract: none}\n")
	c, err := config.Parse("onejob.yaml", []byte(text.String()), os.LookupEnv)
	if err != nil {
		s.t.Fatal(err)
	}
	adapters, err := c.Adapters()
	if err != nil {
		s.t.Fatal(err)
	}
	return func(w *worker.Config) {
		w.Providers, w.Tokens = provider.NewRegistry(adapters...), tokens
	}
}

// startCertification starts a run and returns its id.
func (s *system) startCertification(c tested, name string) string {
	s.t.Helper()
	s.storeContract(c)
	runID, started, err := s.certifications().Start(s.t.Context(), activities.CertificationInput{RunID: uuid.NewString(), ContractSHA256: c.SHA256, Provider: name, RequestedBy: "ana"}, c.Kind)
	if err != nil || !started {
		s.t.Fatalf("started %v, %v", started, err)
	}
	return runID
}

func (s *system) storeContract(c tested) {
	s.t.Helper()
	text := postgres.ContractText{SHA256: c.SHA256, Kind: c.Kind, Version: c.Version, File: c.bundle.File, Files: c.bundle.Files}
	if err := s.store.StoreContractOnce(s.t.Context(), text); err != nil {
		s.t.Fatal(err)
	}
}

func (s *system) certifications() workflows.Certifications {
	return workflows.Certifications{Client: s.temporal, TaskQueue: s.queue}
}

// certified runs the contract against the provider and returns the report.
func (s *system) certified(c tested, name string) certify.Report {
	s.t.Helper()
	runID := s.startCertification(c, name)
	if _, err := s.certifications().Await(s.t.Context(), c.SHA256, name); err != nil {
		s.t.Fatal(err)
	}
	return s.report(runID)
}

func (s *system) report(runID string) (r certify.Report) {
	s.t.Helper()
	text, err := s.store.CertificationReport(s.t.Context(), runID)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		s.t.Fatalf("report of %s: %v", runID, err)
	}
	return r
}

// failedChecks are the checks that the report says have failed.
func failedChecks(r certify.Report) (failed []string) {
	for _, k := range r.Checks {
		if k.Verdict == certify.Failed {
			failed = append(failed, k.Name)
		}
	}
	return failed
}

func codesOf(r certify.Report) (codes []contract.Code) {
	for _, k := range r.Cases {
		for _, call := range k.Calls {
			for _, f := range call.Findings {
				codes = append(codes, f.Code)
			}
		}
	}
	return codes
}

func TestMisbehavingProviderIsRefusedForTheRightReason(t *testing.T) {
	for _, name := range []string{"address", "invoice"} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			c := exampleContract(t, name)
			address, sim := ownSimulator(t)
			plan := simulator.Plan{Scripts: c.scripts(t, "good", c.goodParts(t))}
			providers := []string{"good "}
			for _, m := range misbehaviours {
				parts := c.goodParts(t)
				m.spoil(t, c, parts)
				plan.Scripts = append(plan.Scripts, c.scripts(t, m.name, parts)...)
				providers = append(providers, m.name+" "+m.timeout)
			}
			if err := sim.SetPlan(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			s.startWorker(s.simulated(address, providers...))

			good := s.certified(c, "good")
			if !good.Passed || len(codesOf(good)) > 0 || good.Totals.Answered != good.Totals.Calls || good.Totals.Calls != len(c.replies)*3 {
				t.Fatalf("the good one: passed %v, %s, %v, %+v", good.Passed, good.Summary, failedChecks(good), good.Totals)
			}
			for _, m := range misbehaviours {
				r := s.certified(c, m.name)
				if failed := failedChecks(r); r.Passed || !slices.Equal(failed, []string{m.check}) {
					t.Errorf("%s: passed %v, failed %v, want %s: %s", m.name, r.Passed, failed, m.check, r.Summary)
				}
				if codes := codesOf(r); !slices.Contains(codes, m.code) {
					t.Errorf("%s: found %v, want %s", m.name, codes, m.code)
				}
			}
			certificates, err := s.store.Certificates(t.Context(), postgres.CertificateFilter{ContractSHA256: c.SHA256})
			if err != nil || len(certificates) != 1 || certificates[0].Provider != "good" || certificates[0].State != postgres.CertificateValid {
				t.Errorf("certificates: %+v, %v", certificates, err)
			}
			s.wantCleanAudit()
		})
	}
}

// wantCleanAudit fails the test unless the books agree, once the messages are consumed.
func (s *system) wantCleanAudit() {
	s.t.Helper()
	var audit postgres.Audit
	s.eventually("the audit finds nothing", func() bool {
		var err error
		if audit, err = s.store.Audit(s.t.Context(), postgres.AuditScope{}, nil); err != nil {
			s.t.Fatal(err)
		}
		return audit.Differences == 0
	})
}

// ownSimulator starts a simulated provider that only this test asks, as a process of its own.
func ownSimulator(t *testing.T) (address string, client *simulator.Client) {
	t.Helper()
	address, stop, err := spawnSimulator()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	client = simulator.NewClient(address)
	t.Cleanup(client.Close)
	return address, client
}
