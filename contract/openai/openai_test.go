package openai_test

import (
	"testing"

	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/contract/openai"
)

func TestTokensAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]struct {
		name   string
		window int
	}{
		"gpt-4o": {"o200k_base", 128_000}, "gpt-4o-mini-2024-07-18": {"o200k_base", 128_000}, "gpt-4.1-nano": {"o200k_base", 1_047_576},
		"gpt-5.2": {"o200k_base", 400_000}, "o3": {"o200k_base", 200_000}, "o1-mini": {"o200k_base", 128_000}, "gpt-4": {"cl100k_base", 8192},
		"gpt-4-turbo-2024-04-09": {"cl100k_base", 128_000}, "gpt-3.5-turbo": {"cl100k_base", 16_385}, "ft:gpt-4o:acme::id": {"o200k_base", 128_000},
	} {
		tokenizer, window, ok := openai.Model(model)
		if !ok || tokenizer.Name() != want.name || window != want.window {
			t.Errorf("%s: %v, %d", model, ok, window)
		}
	}
	for _, model := range []string{"", "gpt", "gpt-6", "gpt-50", "claude-opus-5", "o", "gpt-4omni"} {
		if _, _, ok := openai.Model(model); ok {
			t.Errorf("%q is known", model)
		}
	}
	// Counted by OpenAI's tiktoken.
	tokenizer, _, _ := openai.Model("gpt-4o")
	if tokens, err := tokenizer.Encode("hello world"); err != nil || len(tokens) != 2 || tokens[0] != 24912 || tokens[1] != 2375 {
		t.Errorf("%v, %v", tokens, err)
	}
	tokenizer, _, _ = openai.Model("gpt-4")
	if tokens, err := tokenizer.Encode("hello world"); err != nil || len(tokens) != 2 || tokens[0] != 15339 || tokens[1] != 1917 {
		t.Errorf("%v, %v", tokens, err)
	}
}

func TestTextOfEveryScriptComesBack(t *testing.T) {
	t.Parallel()
	p := contract.Prompt{System: "Große Weißgerberstraße 9 · ¥2,160 · ٤٠ × ٥٥٫٠٠", User: "請求書 счёт चालान ใบกำกับภาษี ደረሰኝ 👩‍👧 \u200b\u0301 \U0010ffff"}
	for _, model := range []string{"gpt-4o", "gpt-4"} {
		tokenizer, _, _ := openai.Model(model)
		if err := contract.RoundTrip(tokenizer, p); err != nil {
			t.Error(err)
		}
		if n, err := tokenizer.Count(t.Context(), p); err != nil || n < 50 || len(tokenizer.SpecialTokens()) < 5 {
			t.Errorf("%d tokens, %v", n, err)
		}
	}
}
