// Package openai has the tokenizers of OpenAI's models: their vocabularies are embedded, so
// nothing is loaded. It stands apart from package contract because they are large.
//
// It imports contract, and nothing else of this module.
package openai

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/onejob/onejob/contract"
)

// chatTokens mark the roles in OpenAI's chat formats, whatever the vocabulary.
var chatTokens = []string{"<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|endoftext|>", "<|endofprompt|>"}

// The vocabularies are built when they are first asked for: that takes a moment.
var (
	o200k = sync.OnceValue(func() vocabulary {
		return vocabulary{codec.NewO200kBase(), append([]string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>",
			"<|constrain|>", "<|return|>", "<|call|>"}, chatTokens...)}
	})
	cl100k = sync.OnceValue(func() vocabulary {
		return vocabulary{codec.NewCl100kBase(), append([]string{"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}, chatTokens...)}
	})
)

// family is a family of OpenAI's models.
type family struct {
	prefix     string
	vocabulary func() vocabulary
	window     int // tokens of the context
}

// families are those of https://platform.openai.com/docs/models; the longest prefix counts.
var families = []family{
	{"gpt-5", o200k, 400_000},
	{"gpt-5-chat", o200k, 128_000},
	{"gpt-4.1", o200k, 1_047_576},
	{"gpt-4o", o200k, 128_000},
	{"chatgpt-4o", o200k, 128_000},
	{"o1", o200k, 200_000},
	{"o1-mini", o200k, 128_000},
	{"o1-preview", o200k, 128_000},
	{"o3", o200k, 200_000},
	{"o4-mini", o200k, 200_000},
	{"gpt-4", cl100k, 8192},
	{"gpt-4-32k", cl100k, 32_768},
	{"gpt-4-turbo", cl100k, 128_000},
	{"gpt-4-1106", cl100k, 128_000},
	{"gpt-4-0125", cl100k, 128_000},
	{"gpt-3.5-turbo", cl100k, 16_385},
}

// Model returns the tokenizer of a model by its name at OpenAI, and its context in
// tokens. It does not know others.
func Model(model string) (t contract.Tokenizer, window int, ok bool) {
	known := familyOf(model)
	if known.prefix == "" {
		return nil, 0, false
	}
	return known.vocabulary(), known.window, true
}

// Known says whether Model knows the model.
func Known(model string) bool { return familyOf(model).prefix != "" }

// familyOf returns the family of the model, the zero value if it has none.
func familyOf(model string) (known family) {
	model = strings.TrimPrefix(model, "ft:")
	for _, f := range families {
		if len(f.prefix) > len(known.prefix) && begins(model, f.prefix) {
			known = f
		}
	}
	return known
}

// begins says that model is of the family: gpt-4 is not gpt-4o.
func begins(model, prefix string) bool {
	rest, ok := strings.CutPrefix(model, prefix)
	return ok && (rest == "" || strings.ContainsRune("-.:", rune(rest[0])))
}

// The tokens that OpenAI's chat format adds to a request: for each message, and before the
// answer. Source: OpenAI's cookbook, 'How to count tokens with tiktoken'.
const (
	tokensPerMessage = 4
	tokensForAnswer  = 3
)

// vocabulary is a tokenizer with a vocabulary of ours.
type vocabulary struct {
	codec   *codec.Codec
	special []string
}

func (v vocabulary) Name() string { return v.codec.GetName() }

func (v vocabulary) SpecialTokens() []string { return slices.Clone(v.special) }

func (v vocabulary) Encode(text string) ([]uint, error) {
	tokens, _, err := v.codec.Encode(text)
	return tokens, err
}

func (v vocabulary) Decode(tokens []uint) (string, error) { return v.codec.Decode(tokens) }

func (v vocabulary) Count(_ context.Context, p contract.Prompt) (int, error) {
	total := 2*tokensPerMessage + tokensForAnswer
	for _, text := range []string{p.System, p.User} {
		n, err := v.codec.Count(text)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
