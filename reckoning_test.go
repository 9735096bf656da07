package onejob_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/onejob/onejob"
)

func TestAllowedOutputIsTheFirstBoundOfTheInput(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]int64{
		`{"max_output_tokens": 7}`:                                              7,
		`{"max_tokens": 1, "max_completion_tokens": 2}`:                         2,
		`{"max_tokens": 1, "max_completion_tokens": 2, "max_output_tokens": 3}`: 3,
		`{"max_output_tokens": null, "max_tokens": 5}`:                          5,
		`{"max_output_tokens": "9", "max_tokens": 5.2}`:                         6,
		`{"max_tokens": 1e3}`:                                                   1000,
		`{"max_tokens": 1e400}`:                                                 1e9,
		`{"max_tokens": -1}`:                                                    4096,
		`{"max_tokens": 0}`:                                                     4096,
		`{"max_tokens": 1, "max_tokens": 2}`:                                    2,
		`{"prompt": {"max_tokens": 5}}`:                                         4096,
		`{"Max_Tokens": 5, "text": "\u0000"}`:                                   4096,
		`["max_tokens", 5]`:                                                     4096,
		`null`:                                                                  4096,
		`5`:                                                                     4096,
	} {
		if got := onejob.AllowedOutput(json.RawMessage(input)); got != want {
			t.Errorf("%s allows %d tokens, want %d", input, got, want)
		}
	}
}

func TestJobIsReckonedWithEveryProviderAndItsModel(t *testing.T) {
	t.Parallel()
	catalog := onejob.Catalog{
		Kinds:     map[string]onejob.Kind{"invoice": {}},
		Providers: map[string]onejob.ProviderDefaults{"primary": {Model: "m-large"}, "plain": {}},
	}
	job, err := onejob.NewJob(onejob.Request{Owner: "o", Key: "k", Kind: "invoice", Provider: "primary", Fallbacks: []string{"plain"},
		Input: json.RawMessage(`{"max_tokens":3}`)}, catalog)
	if err != nil {
		t.Fatal(err)
	}
	want := []onejob.Candidate{{Provider: "primary", Model: "m-large"}, {Provider: "plain"}}
	if r := job.Reckoning; len(r.Candidates) != 2 || r.Candidates[0] != want[0] || r.Candidates[1] != want[1] || r.InputTokens != 4 || r.OutputTokens != 3 {
		t.Fatalf("reckoned with %+v", r)
	}
}

// What a job of a kind with a contract may come to is what its prompt and the contract say.
func TestReckoningOfAContractIsOfItsPrompt(t *testing.T) {
	t.Parallel()
	contract := &onejob.Contract{SHA256: "0f", File: "invoice.yaml", MaxTokens: 200, PromptBytes: func(input []byte) (int, error) {
		if string(input) == `{"page":0}` {
			return 0, errors.New("input at /page: it is no page")
		}
		return 400, nil
	}}
	catalog := onejob.Catalog{
		Kinds:     map[string]onejob.Kind{"invoice": {Contract: contract, Hold: true}},
		Providers: map[string]onejob.ProviderDefaults{"primary": {}},
	}
	request := onejob.Request{Owner: "o", Key: "k", Kind: "invoice", Provider: "primary", Input: json.RawMessage(`{"page":1,"max_tokens":9}`)}
	job, err := onejob.NewJob(request, catalog)
	if err != nil || job.Reckoning.InputTokens != 100 || job.Reckoning.OutputTokens != 200 {
		t.Errorf("reckoned with %+v, %v", job.Reckoning, err)
	}
	if ref := catalog.Reference(&job); !ref.Hold || !ref.Plan().Hold {
		t.Error("the workflow does not know that the job may wait")
	}
	request.Input = json.RawMessage(`{"page":0}`)
	if _, err := onejob.NewJob(request, catalog); !errors.Is(err, onejob.ErrInvalidRequest) ||
		err.Error() != `the input does not fit the contract of kind "invoice": input at /page: it is no page: correct the input, see invoice.yaml` {
		t.Errorf("an input that does not fit: %v", err)
	}
}
