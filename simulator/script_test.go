package simulator_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/onejob/onejob/simulator"
)

func says(words ...string) (answers []simulator.Directives) {
	for _, word := range words {
		answers = append(answers, simulator.Directives{Answer: json.RawMessage(fmt.Sprintf("%q", word))})
	}
	return answers
}

// asked asks the provider gpt, and returns what it says.
func (r *rig) asked(t *testing.T, text string) string {
	t.Helper()
	params := chatParams
	params.Messages = []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be short."), openai.UserMessage(text)}
	got, err := r.openAI("j").Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return got.Choices[0].Message.Content
}

func TestScriptAnswersWhatIsSaidOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	if err := r.SetPlan(t.Context(), simulator.Plan{Scripts: []simulator.Script{
		{Only: "other", Answers: says("of another provider")},
		{Contains: "tell \"me\"\nall", Answers: says("first", "second")},
		{Only: "gpt", Answers: says("whatever")},
	}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, text := range []string{"tell \"me\"\nall", "else", "now tell \"me\"\nall", "tell \"me\"\nall"} {
		got = append(got, r.asked(t, text))
	}
	if want := "[first whatever second first]"; fmt.Sprint(got) != want {
		t.Errorf("it says %v, want %s", got, want)
	}
	r.mustCount(simulator.Subject{Job: "j", Attempt: 1}, 4, 4)
	got2, err := r.openAI("j").Chat.Completions.New(t.Context(), chatParams, directed(`{"answer":"directed"}`))
	if err != nil || got2.Choices[0].Message.Content != "directed" {
		t.Errorf("directives of a request's own count first: %v, %v", got2, err)
	}
}

func TestScriptThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, simulator.Options{})
	for name, script := range map[string]simulator.Script{
		"no answer":    {Contains: "x"},
		"a bad answer": {Answers: []simulator.Directives{{Status: 7}}},
	} {
		if err := r.SetPlan(t.Context(), simulator.Plan{Scripts: []simulator.Script{script}}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
