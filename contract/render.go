package contract

import (
	"context"
	"fmt"
	"strings"
)

// Prompt is what a provider is asked.
type Prompt struct {
	System string `json:"system"`
	User   string `json:"user"`
}

// Render returns the prompt for an input. Counter is the model's, so that its special
// tokens are found; nil: they are not known, and what looks like one is taken for one.
// The error is a [Finding] with the code input, template or special_token.
func (c *Contract) Render(input []byte, counter Counter) (Prompt, error) {
	value, err := c.parseInput(input)
	if err != nil {
		return Prompt{}, err
	}
	special := specialOf(counter)
	inert := func(text string) string { return text }
	if c.NeutraliseInput {
		inert = special.breakUp
	}
	return c.render(shown(value, inert), special)
}

// RenderCase returns the prompt for a case: its instruction, if it has one, stands behind
// the system prompt. It fails as [Contract.Render] does.
func (c *Contract) RenderCase(k Case, counter Counter) (Prompt, error) {
	p, err := c.Render(k.Input, counter)
	if err == nil && k.Instruction != "" {
		p.System = strings.TrimRight(p.System, "\n") + "\n\n" + k.Instruction
	}
	return p, err
}

// CheckInput returns a [Finding] if the input cannot be the contract's.
func (c *Contract) CheckInput(input []byte) error {
	_, err := c.parseInput(input)
	return err
}

func (c *Contract) parseInput(input []byte) (any, error) {
	value, f := parseValue(input, mostInputBytes)
	if f != nil {
		return nil, Finding{Code: CodeInput, Path: f.Path, Detail: fmt.Sprintf("%s: %s", f.Code, f.Detail)}
	}
	if broken := c.input.check(value); len(broken) > 0 {
		return nil, Finding{Code: CodeInput, Path: broken[0].Path, Detail: oneLine(broken[0].Detail)}
	}
	return value, nil
}

func (c *Contract) render(input any, special specialTokens) (p Prompt, err error) {
	if p.System, err = c.system.render(input); err != nil {
		return Prompt{}, err
	}
	if p.User, err = c.user.render(input); err != nil {
		return Prompt{}, err
	}
	for name, text := range map[string]string{c.system.name: p.System, c.user.name: p.User} {
		if token := special.find(text); token != "" {
			return Prompt{}, Finding{Code: CodeSpecialToken, Name: token, Detail: fmt.Sprintf("the %s prompt would hold %s, which steers the model: take it out of the input, or say special_tokens: neutralise", name, token)}
		}
	}
	return p, nil
}

// Fits returns the tokens of the prompt as the counter counts them. The error is a
// [Finding]: of the code context if the prompt and the answer's allowance exceed window,
// which is the model's context in tokens; of the code count if they cannot be counted.
func (c *Contract) Fits(ctx context.Context, p Prompt, counter Counter, window int) (tokens int, err error) {
	tokens, err = counter.Count(ctx, p)
	if err != nil {
		return 0, Finding{Code: CodeCount, Name: counter.Name(), Detail: oneLine(err.Error())}
	}
	if tokens+c.Parameters.MaxTokens > window {
		return tokens, Finding{Code: CodeContext, Name: counter.Name(), Detail: fmt.Sprintf(
			"%d tokens of the prompt and %d of the answer exceed the context of %d: shorten the prompt, lower max_tokens or take another model", tokens, c.Parameters.MaxTokens, window)}
	}
	return tokens, nil
}
