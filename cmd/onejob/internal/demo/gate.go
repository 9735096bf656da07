package demo

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
	"github.com/onejob/onejob/examples"
	"github.com/onejob/onejob/simulator"
)

// The story of the gate: a kind with a contract, and three models that are asked by it. One
// talks around its replies, one invents a member, one does what it is told.
const (
	gatedKind     = "bill"
	contractFile  = gatedKind + ".yaml"
	chatty        = "chatty"
	inventive     = "inventive"
	careful       = "careful"
	gatedModel    = "gpt-4o" // whose tokenizer counts
	certifiedCase = 1        // of the contract, whose input the jobs have
)

// withContract adds the kind and its models to the configuration. Its contract is that of
// examples for invoices, under another name: the story's other invoices have none.
func withContract(config []byte) []byte {
	models := "providers:\n"
	prices := "prices:\n"
	for _, name := range []string{chatty, inventive, careful} {
		models += fmt.Sprintf("  %s: {type: openai, url: \"${env:ONEJOB_SIMULATOR}/openai/%s/v1\", model: %s, timeout: 10s, listen_for: 10m}\n", name, name, gatedModel)
		for _, unit := range []string{"input", "output"} {
			prices += fmt.Sprintf("  - {provider: %s, model: %s, unit: %s, price: 0.000002, charge: 0.000003, currency: USD}\n", name, gatedModel, unit)
		}
	}
	text := string(config)
	for section, added := range map[string]string{
		"providers:\n": models, "prices:\n": prices,
		"kinds:\n": fmt.Sprintf("kinds:\n  %s: {side_effects: external, contract: %s}\n", gatedKind, contractFile),
	} {
		text = strings.Replace(text, section, added, 1)
	}
	return []byte(text)
}

// gatedContract is the text of the kind's contract.
func gatedContract() []byte {
	return []byte(strings.Replace(string(examples.InvoiceContract), "\nkind: invoice\n", "\nkind: "+gatedKind+"\n", 1))
}

// gate fails over to nobody who has not proved itself, and then to who has.
func (s *scene) gate() {
	if s.err != nil {
		return
	}
	c, err := contract.Load(s.path(contractFile))
	if err != nil {
		s.err = err
		return
	}
	s.plan(simulator.Plan{Scripts: s.parts(c)})

	s.say("Jobs of the kind %s have a contract: schemas, rules, and %d real invoices with what is known of each.", gatedKind, len(c.Cases))
	s.say("%s is asked, and talks around its reply. Nobody else has proved that it honours the contract.", chatty)
	stuck := s.startGated("nobody-proved", c)
	failed := s.onejob("job", "wait", stuck.JobID)
	s.say("%s", failed.stderr)
	s.claim("exit code, of a job that failed", failed.code, 5)
	s.claim("why the first attempt failed", s.reason(stuck.JobID, chatty), onejob.ReasonContractViolation)
	s.claim("why the others were skipped", s.reason(stuck.JobID, careful), onejob.ReasonNotCertified)
	s.claim("calls of those that were skipped", s.countsOf(inventive)+s.countsOf(careful), 0)
	refused := s.onejob("job", "attempt", stuck.JobID, "--provider", inventive)
	s.say("%s", refused.stderr)
	s.claim("exit code of asking for one of them", refused.code, 6)

	s.say("%s answers every case, and adds a member that nobody asked for.", inventive)
	s.verify(inventive, 5)
	s.say("%s does what the contract says.", careful)
	s.verify(careful, 0)
	s.claim("certificates", row[int](s, `SELECT count(*)::int FROM certificates WHERE contract = $1`, gatedKind), 1)

	s.say("The next job goes past the one that was refused, to the one that proved itself.")
	v := s.wait(s.startGated("one-proved", c).JobID)
	s.claim("the job's status", v.Status, onejob.StatusSucceeded)
	s.claim("the winner", s.winner(v), careful)
	s.claim("why the one between was skipped", s.reason(v.JobID, inventive), onejob.ReasonNotCertified)
	s.plan(simulator.Plan{})
}

// parts are what the simulated models say: to each case by its own prompt, to all else too.
func (s *scene) parts(c *contract.Contract) (scripts []simulator.Script) {
	var replies map[string]json.RawMessage
	counter, _, _ := openai.Model(gatedModel)
	if err := json.Unmarshal(examples.InvoiceReplies, &replies); err != nil {
		s.err = err
		return nil
	}
	for i, k := range append([]contract.Case{c.Canary}, c.Cases...) {
		prompt, err := c.RenderCase(k, nil)
		if err != nil {
			s.err = err
			return nil
		}
		in, err := counter.Count(s.ctx, prompt)
		if err != nil {
			s.err = err
			return nil
		}
		contains := prompt.User
		if i == 0 {
			contains = k.Instruction
		}
		good := string(replies[k.Name])
		for name, reply := range map[string]string{
			careful:   good,
			inventive: strings.Replace(good, "{", `{"confidence": 0.97, `, 1),
			chatty:    "Here is the invoice that you asked for:\n" + good,
		} {
			scripts = append(scripts, simulator.Script{Only: name, Contains: contains, Answers: []simulator.Directives{s.says(reply, in, counter)}})
		}
	}
	return scripts
}

func (s *scene) says(reply string, in int, counter contract.Tokenizer) simulator.Directives {
	out, err := counter.Encode(reply)
	text, marshalErr := json.Marshal(reply)
	if err != nil || marshalErr != nil {
		s.err = fmt.Errorf("write a model's reply: %w, %w", err, marshalErr)
	}
	return simulator.Directives{Answer: text, Usage: json.RawMessage(fmt.Sprintf(`{"input_tokens": %d, "output_tokens": %d}`, in, len(out)))}
}

func (s *scene) startGated(key string, c *contract.Contract) onejob.Submitted {
	return s.submit(key, string(c.Cases[certifiedCase].Input), "--kind", gatedKind, "--provider", chatty, "--fallback", inventive, "--fallback", careful)
}

// verify has the provider prove itself, and shows how that ended.
func (s *scene) verify(provider string, code int) {
	r := s.onejob("contract", "verify", s.path(contractFile), "--provider", provider)
	checks, _, _ := strings.Cut(string(r.stdout), "\n\n") // the cases stand behind them
	for line := range strings.Lines(checks) {
		s.say("  %s", strings.TrimRight(line, "\n"))
	}
	s.claim("exit code of the verification", r.code, code)
}

// reason returns why the job's attempt on the provider failed.
func (s *scene) reason(jobID, provider string) onejob.Reason {
	return onejob.Reason(row[string](s, `SELECT coalesce(max(reason), '') FROM attempts WHERE job_id = $1 AND provider = $2`, jobID, provider))
}

// countsOf returns how many calls of jobs the provider had.
func (s *scene) countsOf(provider string) int {
	return row[int](s, `SELECT count(*)::int FROM attempts WHERE provider = $1 AND reason IS DISTINCT FROM 'not_certified'`, provider)
}
