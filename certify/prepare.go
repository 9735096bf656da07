package certify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
)

// Question is what the provider is asked for one case.
type Question struct {
	Case     string             `json:"case"` // empty: the canary
	Runs     int                `json:"runs"`
	MustPass int                `json:"must_pass"`
	Tokens   int                `json:"tokens"` // of the prompt, as the model counts; 0: not counted
	Findings []contract.Finding `json:"findings,omitempty"`

	// Most is how many tokens of input the provider may tell at most: a format that the answer
	// must have is counted with the prompt.
	Most int `json:"most_tokens"`
}

// Preparation is what stands before the first call.
type Preparation struct {
	Tokenizer string     `json:"tokenizer"` // empty: nothing is counted
	Window    int        `json:"context"`   // of the model, in tokens
	OwnPrompt bool       `json:"own_prompt"`
	Questions []Question `json:"questions"` // the canary last, if it is asked
}

// Renders says whether every prompt can be sent.
func (p Preparation) Renders() bool {
	for _, q := range p.Questions {
		if len(q.Findings) > 0 {
			return false
		}
	}
	return true
}

// Calls is how many calls there are to make.
func (p Preparation) Calls() (n int) {
	for _, q := range p.Questions {
		n += q.Runs
	}
	return n
}

// MustPass is how many of the calls must pass.
func (p Preparation) MustPass() (n int) {
	for _, q := range p.Questions {
		n += q.MustPass
	}
	return n
}

// Question returns the question of the case; empty: the canary.
func (p Preparation) Question(name string) (Question, bool) {
	for _, q := range p.Questions {
		if q.Case == name {
			return q, true
		}
	}
	return Question{}, false
}

// CaseOf returns the contract's case of the name; empty: the canary.
func CaseOf(c *contract.Contract, name string) (contract.Case, bool) {
	if name == "" {
		return c.Canary, true
	}
	for _, k := range c.Cases {
		if k.Name == name {
			return k, true
		}
	}
	return contract.Case{}, false
}

// Prepare renders the prompt of each case and of the canary, and counts it. What is wrong with
// one is a finding of its question. A provider that has its own prompt is sent the inputs as they
// are: nothing is counted, and the canary is not asked. It fails with [onejob.ErrMisconfigured]
// if the subject takes prompts and its tokens cannot be counted.
func Prepare(ctx context.Context, c *contract.Contract, s Subject) (p Preparation, err error) {
	takes, err := s.takesPrompts()
	if err != nil {
		return p, onejob.Errorf(onejob.CodeMisconfigured, "provider %q cannot be asked by a prompt: %w", s.Provider, err)
	}
	p.OwnPrompt = !takes
	if takes && s.Counter == nil {
		return p, onejob.Errorf(onejob.CodeMisconfigured, "provider %q: how its model %q counts tokens is not known: add tokenizer: to it in onejob.yaml", s.Provider, s.Model)
	}
	if takes {
		p.Tokenizer, p.Window = s.Counter.Name(), s.Window
	}
	for _, k := range c.Cases {
		p.Questions = append(p.Questions, prepare(ctx, c, s, k, k.Name, takes))
	}
	if takes {
		p.Questions = append(p.Questions, prepare(ctx, c, s, c.Canary, "", takes))
	}
	return p, nil
}

func prepare(ctx context.Context, c *contract.Contract, s Subject, k contract.Case, name string, takes bool) Question {
	q := Question{Case: name, Runs: k.Runs, MustPass: k.MustPass}
	rendered, err := c.RenderCase(k, nil) // as jobs do
	if err == nil && takes {
		err = survives(rendered, k.Input, s.Counter)
	}
	if err == nil && takes {
		q.Tokens, err = c.Fits(ctx, rendered, s.Counter, s.Window)
	}
	if err == nil {
		prompt := PromptOf(c, rendered, k.Input)
		_, err = s.Prompter.Prompted(prompt)
		if takes && c.Parameters.ResponseFormat == contract.FormatJSONSchema && err == nil {
			q.Most, err = s.Counter.Count(ctx, contract.Prompt{System: rendered.System, User: rendered.User + string(prompt.Schema)})
		}
	}
	q.Most = max(q.Most, q.Tokens)
	if err != nil {
		q.Findings = []contract.Finding{findingOf(err)}
	}
	return q
}

// Ask returns the input of a call that asks the case; empty: the canary. It fails as Prepare
// found.
func Ask(c *contract.Contract, s Subject, name string) (json.RawMessage, error) {
	k, ok := CaseOf(c, name)
	if !ok {
		return nil, onejob.Errorf(onejob.CodeNotFound, "contract %.12s has no case %q", c.SHA256, name)
	}
	rendered, err := c.RenderCase(k, nil) // as jobs do
	if err != nil {
		return nil, err
	}
	return s.Prompter.Prompted(PromptOf(c, rendered, k.Input))
}

// findingOf is what a failed step found.
func findingOf(err error) contract.Finding {
	if f, ok := errors.AsType[contract.Finding](err); ok {
		return f
	}
	return contract.Finding{Code: contract.CodeTemplate, Detail: onejob.Shorten(err.Error(), 300)}
}

// marker is what a template that nobody filled in leaves behind.
var marker = regexp.MustCompile(`\{\{.*?\}\}|<no value>|\$\{[A-Za-z_][A-Za-z0-9_.]*\}`)

// survives returns a finding if the prompt has a template's marker that the input has not, or a
// special token of the model, or if the tokenizer gives back another text than it was given.
func survives(p contract.Prompt, input []byte, counter contract.Counter) error {
	for name, text := range map[string]string{"system": p.System, "user": p.User} {
		for _, left := range marker.FindAllString(text, -1) {
			if !inInput(input, left) {
				return contract.Finding{Code: contract.CodeTemplate, Name: left, Detail: fmt.Sprintf("the %s prompt still has %s, which the template left: fill it in", name, left)}
			}
		}
	}
	for _, token := range counter.SpecialTokens() {
		if strings.Contains(p.System+"\n"+p.User, token) {
			return contract.Finding{Code: contract.CodeSpecialToken, Name: token, Detail: "the prompt holds " + token + ", which steers the model: take it out of the input or the template"}
		}
	}
	if t, ok := counter.(contract.Tokenizer); ok {
		return contract.RoundTrip(t, p)
	}
	return nil
}

// inInput says whether the input has the text: what it says is its own, a marker too.
func inInput(input []byte, text string) bool {
	var value any
	if json.Unmarshal(input, &value) != nil {
		return false
	}
	return holds(value, text)
}

func holds(value any, text string) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		for _, item := range v {
			if holds(item, text) {
				return true
			}
		}
	case map[string]any:
		for name, item := range v {
			if holds(name, text) || holds(item, text) {
				return true
			}
		}
	}
	return false
}
