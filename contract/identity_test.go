package contract_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/onejob/onejob/contract"
)

// The vectors: a change of the canonical content voids every certificate.
func TestIdentitiesStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	if got, want := mustParse(t, small(t)).SHA256, "1f1b73dd25a78a1d0d18329c1ff113816cf01dc59e99c7f9c2cfcc3e6120d211"; got != want {
		t.Errorf("the small contract is %s, want %s", got, want)
	}
	if got, want := mustLoad(t, "testdata", "full.yaml").SHA256, "07eb7e339650168f6be2a479aa556c421595427f63bd9f4c05a91221dd2f119a"; got != want {
		t.Errorf("the full contract is %s, want %s", got, want)
	}
}

func TestSpellingAndDefaultsDoNotChangeTheIdentity(t *testing.T) {
	t.Parallel()
	want := mustParse(t, small(t)).SHA256
	for why, text := range map[string]string{
		"comment":             "# A comment.\n" + small(t),
		"order":               strings.Replace(small(t), "version: 1\nkind: sum\n", "kind: sum\nversion: 1\n", 1),
		"order in a schema":   small(t, `output_schema: {properties: {note: {type: string}, sum: {type: number}}, type: object, required: [sum]}`),
		"order in a case":     small(t, `cases: [{facts: [{equal: 3.0e-1, path: /sum}], input: {numbers: [0.10, 0.2]}, name: "two"}]`),
		"block style":         small(t, "prompt:\n  system: Add.\n  user: '{{json .numbers}}'"),
		"an alias":            small(t, "kind: &k sum"),
		"defaults":            small(t, "ends: [stop, completed, end_turn]", "side_effects: external", "unknown_keys: refuse", "special_tokens: refuse", "parameters: {max_tokens: 4096, response_format: json_object}"),
		"default certificate": small(t, "certificate: {valid_for: 720h0m, keep_payloads: false}"),
		"default runs":        small(t, `cases: [{name: two, input: {numbers: [0.1, 0.2]}, facts: [{path: /sum, equal: 0.3}], runs: 3, must_pass: 3}]`),
	} {
		if got := mustParse(t, text).SHA256; got != want {
			t.Errorf("%s: another identity", why)
		}
	}
}

func TestEveryMeaningChangesTheIdentity(t *testing.T) {
	t.Parallel()
	seen := map[string]string{mustParse(t, small(t)).SHA256: "as it was"}
	for why, line := range map[string]string{
		"version":      "version: 2",
		"kind":         "kind: add",
		"effects":      "side_effects: none",
		"prompt":       `prompt: {system: "Add!", user: "{{json .numbers}}"}`,
		"user prompt":  `prompt: {system: "Add.", user: "{{json .}}"}`,
		"input":        "input_schema: {type: object}",
		"output":       "output_schema: {type: object, properties: {sum: {type: number}, note: {type: string}}}",
		"unknown keys": "unknown_keys: allow",
		"tokens":       "special_tokens: neutralise",
		"rule":         `rules: [{name: adds-up, cel: "output.sum >= sum(input.numbers)"}]`,
		"rule's words": `rules: [{name: adds-up, cel: "output.sum == sum(input.numbers)", says: it adds up}]`,
		"temperature":  "parameters: {temperature: 0}",
		"max tokens":   "parameters: {max_tokens: 10}",
		"seed":         "parameters: {seed: 0}",
		"format":       "parameters: {response_format: text}",
		"ends":         "ends: [stop]",
		"case":         `cases: [{name: two, input: {numbers: [0.1, 0.3]}, facts: [{path: /sum, equal: 0.3}]}]`,
		"fact":         `cases: [{name: two, input: {numbers: [0.1, 0.2]}, facts: [{path: /sum, one_of: [0.3]}]}]`,
		"runs":         `cases: [{name: two, input: {numbers: [0.1, 0.2]}, facts: [{path: /sum, equal: 0.3}], runs: 4, must_pass: 3}]`,
		"canary":       `canary: {instruction: "Set note to heron.", input: {numbers: [1]}, facts: [{path: /note, equal: heron}]}`,
		"latency":      "ceilings: {latency: 1s}",
		"cost":         "ceilings: {cost: 1, currency: USD}",
		"currency":     "ceilings: {cost: 1, currency: EUR}",
		"validity":     "certificate: {valid_for: 1h}",
		"payloads":     "certificate: {keep_payloads: true}",
	} {
		sum := mustParse(t, small(t, line)).SHA256
		if other, taken := seen[sum]; taken {
			t.Errorf("%s has the identity of %s", why, other)
		}
		seen[sum] = why
	}
}

func TestFilesBesideAreOfTheIdentity(t *testing.T) {
	t.Parallel()
	identity := func(files fstest.MapFS) string {
		c, err := contract.Parse("c.yaml", []byte(mustRead(t, "testdata", "full.yaml")), files)
		if err != nil {
			t.Fatal(err)
		}
		return c.SHA256
	}
	files := func(changed, from, to string) fstest.MapFS {
		all := fstest.MapFS{}
		for _, name := range []string{"beside/user.txt", "beside/output.json", "beside/case.json"} {
			text := mustRead(t, "testdata", name)
			if name == changed {
				text = strings.ReplaceAll(text, from, to)
			}
			all[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return all
	}
	want := identity(files("", "", ""))
	if got := identity(files("beside/user.txt", "\n", "\r\n")); got != want {
		t.Error("the ends of lines count")
	}
	if got := identity(files("beside/output.json", "\n", "\n  ")); got != want {
		t.Error("blanks in JSON count")
	}
	for name, change := range map[string][2]string{"beside/user.txt": {"Subject", "Title"}, "beside/output.json": {"[a-z]{2}", "[a-z]{3}"}, "beside/case.json": {"not here", "gone"}} {
		if name == "beside/output.json" {
			change = [2]string{`"type": "number"`, `"type": ["number", "null"]`}
		}
		if identity(files(name, change[0], change[1])) == want {
			t.Errorf("%s does not count", name)
		}
	}
}

func TestFilesOutsideTheFolderAreNotRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(folder+"/secret.txt", []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder+"/inner", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret.txt", folder+"/inner/user.txt"); err != nil {
		t.Fatal(err)
	}
	text := small(t, "prompt: {system: a, user_file: user.txt}")
	if err := os.WriteFile(folder+"/inner/c.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := contract.Load(folder + "/inner/c.yaml"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("%v", err)
	}
}
