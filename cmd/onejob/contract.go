package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
)

func newContract() *cobra.Command {
	return newGroup("contract", "Check contracts, and which providers honour them", newContractLint(), newContractSchema(), newContractVerify(), newContractList(), newContractRevoke())
}

// lintedContract is what lint found about one file, as it is printed.
type lintedContract struct {
	File     string             `json:"file"`
	SHA256   string             `json:"sha256"` // the contract's identity; "": it has problems
	Kind     string             `json:"kind"`
	Version  int                `json:"version"`
	Cases    int                `json:"cases"`
	Models   []countedModel     `json:"models"`
	Problems []contract.Problem `json:"problems"`
}

// countedModel says how the prompts of a contract fit a model.
type countedModel struct {
	Model     string `json:"model"`
	Tokenizer string `json:"tokenizer"`
	Context   int    `json:"context"`    // in tokens
	MaxPrompt int    `json:"max_prompt"` // tokens of the longest prompt
}

func newContractLint() *cobra.Command {
	var models []string
	var window int
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Check contract files, and their prompts by a model's tokenizer",
		Long:  contractLintHelp,
		Args:  cobra.MinimumNArgs(1),
	}
	output := outputFlag(cmd)
	cmd.Flags().StringArrayVar(&models, "model", nil, "count the prompts as this model of OpenAI does; repeatable")
	cmd.Flags().IntVar(&window, "context", 0, "context of the models in tokens (default: what is known of each)")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		windows, err := knownModels(models, window)
		if err != nil {
			return err
		}
		linted := []lintedContract{}
		for _, file := range files {
			l, err := lint(cmd.Context(), file, windows)
			if err != nil {
				return err
			}
			linted = append(linted, l)
		}
		if err := printAs(cmd, output, linted, func(w io.Writer) { writeLinted(w, linted) }); err != nil {
			return err
		}
		return lintFailures(linted)
	}
	return cmd
}

const contractLintHelp = `Reads each contract, compiles its templates, schemas and rules, renders the prompt of each
case and checks what the facts name. Prints each problem on a line: file:line: what: remedy.
With --model, also counts each prompt with that model's own tokenizer, encodes and decodes
it, looks for the model's special tokens, and checks that prompt and answer fit its context.
Exits with 2 if a file has a problem.`

// modelWindow is a model to count for.
type modelWindow struct {
	name      string
	tokenizer contract.Tokenizer
	context   int
}

func knownModels(names []string, window int) (models []modelWindow, err error) {
	if window < 0 || window > 0 && len(names) == 0 {
		return nil, usagef("--context is the context of a --model in tokens: give both, and a number above 0")
	}
	for _, name := range names {
		tokenizer, known, ok := openai.Model(name)
		if !ok {
			return nil, usagef("--model %q has no tokenizer here: use a model of OpenAI like gpt-4o or gpt-5", name)
		}
		if window > 0 {
			known = window
		}
		models = append(models, modelWindow{name, tokenizer, known})
	}
	return models, nil
}

// lint checks one file. The error is of no file's.
func lint(ctx context.Context, file string, models []modelWindow) (lintedContract, error) {
	linted := lintedContract{File: file, Models: []countedModel{}, Problems: []contract.Problem{}}
	c, err := contract.Load(file)
	if problems, ok := errors.AsType[contract.Problems](err); ok {
		linted.Problems = problems
		return linted, nil
	}
	if err != nil {
		return linted, err
	}
	linted.SHA256, linted.Kind, linted.Version, linted.Cases = c.SHA256, c.Kind, c.Version, len(c.Cases)
	for _, m := range models {
		longest, findings := c.CheckTokens(ctx, m.tokenizer, m.context)
		linted.Models = append(linted.Models, countedModel{m.name, m.tokenizer.Name(), m.context, longest})
		for _, f := range findings {
			f.Text = m.name + ": " + f.Text
			linted.Problems = append(linted.Problems, f)
		}
	}
	return linted, nil
}

func writeLinted(w io.Writer, linted []lintedContract) {
	for _, l := range linted {
		for _, p := range l.Problems {
			fmt.Fprintln(w, printable(p.String()))
		}
		if len(l.Problems) > 0 {
			continue
		}
		fmt.Fprintln(w, printable(fmt.Sprintf("%s: ok: kind %s, version %d, %d cases, sha256 %s", l.File, l.Kind, l.Version, l.Cases, l.SHA256)))
		for _, m := range l.Models {
			fmt.Fprintln(w, printable(fmt.Sprintf("%s: ok: %s (%s): the longest prompt has %d tokens of %d", l.File, m.Model, m.Tokenizer, m.MaxPrompt, m.Context)))
		}
	}
}

// lintFailures returns an error if a file has a problem.
func lintFailures(linted []lintedContract) error {
	problems, bad := 0, 0
	for _, l := range linted {
		problems += len(l.Problems)
		if len(l.Problems) > 0 {
			bad++
		}
	}
	if problems == 0 {
		return nil
	}
	return onejob.Errorf(onejob.CodeInvalidRequest, "%s in %d of %s: correct the lines above", plural(problems, "problem"), bad, plural(len(linted), "contract"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func newContractSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of contract files, for editors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(contract.EditorSchema)
			return err
		},
	}
}
