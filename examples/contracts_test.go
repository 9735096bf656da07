package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
)

// contracts returns the contracts by name, and for each the good replies by case.
func contracts(t *testing.T) (all map[string]*contract.Contract, replies map[string]map[string]json.RawMessage) {
	t.Helper()
	files, err := filepath.Glob("contracts/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("files %q, %v", files, err)
	}
	all, replies = map[string]*contract.Contract{}, map[string]map[string]json.RawMessage{}
	for _, file := range files {
		c, err := contract.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		text, err := os.ReadFile(filepath.Join("contracts", "replies", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		good := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &good); err != nil {
			t.Fatal(err)
		}
		all[name], replies[name] = c, good
	}
	return all, replies
}

func TestGoodRepliesPassEveryCaseOfTheContracts(t *testing.T) {
	t.Parallel()
	all, replies := contracts(t)
	for name, c := range all {
		for _, k := range append(c.Cases[:len(c.Cases):len(c.Cases)], c.Canary) {
			reply, ok := replies[name][k.Name]
			if !ok {
				t.Errorf("%s: no reply to %q", name, k.Name)
			}
			if v := c.CheckCase(k, reply, "stop"); !v.Passed() {
				t.Errorf("%s, %s: %v", name, k.Name, v.Findings)
			}
		}
	}
}

// A fact that every good reply satisfies says nothing.
func TestNoGoodReplyPassesAnotherCase(t *testing.T) {
	t.Parallel()
	all, replies := contracts(t)
	for name, c := range all {
		for _, k := range append(c.Cases[:len(c.Cases):len(c.Cases)], c.Canary) {
			for other, reply := range replies[name] {
				if other != k.Name && c.CheckCase(k, reply, "stop").Passed() {
					t.Errorf("%s: the reply to %q passes %q", name, other, k.Name)
				}
			}
		}
	}
}

func TestInvoicesOfTheContractAreWrittenInManyScriptsAndCurrencies(t *testing.T) {
	t.Parallel()
	all, _ := contracts(t)
	invoices := all["invoice"].Cases
	var text strings.Builder
	currencies := map[string]bool{}
	for _, k := range invoices {
		text.Write(k.Input)
		for _, f := range k.Facts {
			if f.Path == "/currency" {
				currencies[string(f.Equal)] = true
			}
		}
	}
	if len(invoices) < 20 || len(currencies) < 15 {
		t.Errorf("%d invoices in %d currencies", len(invoices), len(currencies))
	}
	for _, script := range []*unicode.RangeTable{
		unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Arabic, unicode.Hebrew, unicode.Devanagari,
		unicode.Thai, unicode.Han, unicode.Hiragana, unicode.Hangul, unicode.Ethiopic,
	} {
		if !strings.ContainsFunc(text.String(), func(r rune) bool { return unicode.Is(script, r) }) {
			t.Errorf("no character of %v", script.R16)
		}
	}
}

// The jobs of jobs.jsonl are what the contracts are about.
func TestJobsOfTheExamplesAreInputsOfTheContracts(t *testing.T) {
	t.Parallel()
	all, _ := contracts(t)
	for _, job := range mustReadJobs(t) {
		if c, ok := all[job.Kind]; ok {
			if _, err := c.Render(job.Input, nil); err != nil {
				t.Errorf("%s: %v", job.Key, err)
			}
		}
	}
}

func TestPromptsOfTheContractsFitTheModels(t *testing.T) {
	t.Parallel()
	all, _ := contracts(t)
	for _, model := range []string{"gpt-4o", "gpt-4", "gpt-5.2"} {
		tokenizer, window, ok := openai.Model(model)
		if !ok {
			t.Fatalf("%s is not known", model)
		}
		for name, c := range all {
			if longest, problems := c.CheckTokens(t.Context(), tokenizer, window); len(problems) > 0 || longest < 50 {
				t.Errorf("%s, %s: %d tokens, %v", name, model, longest, problems)
			}
		}
	}
}
