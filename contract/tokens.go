package contract

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Counter counts tokens as one model does: by a vocabulary of ours, or by asking the vendor.
type Counter interface {
	// Name says what counts, for people: o200k_base.
	Name() string
	// Count returns the tokens of the whole request, those of the roles among them.
	Count(ctx context.Context, p Prompt) (int, error)
	// SpecialTokens returns the texts that the model reads as a command, not as text.
	SpecialTokens() []string
}

// Tokenizer is a Counter whose tokens can be seen.
type Tokenizer interface {
	Counter
	Encode(text string) ([]uint, error)
	Decode(tokens []uint) (string, error)
}

// RoundTrip returns a [Finding] of the code round_trip if the prompt, encoded and decoded
// again, is another one.
func RoundTrip(t Tokenizer, p Prompt) error {
	for name, text := range map[string]string{"system": p.System, "user": p.User} {
		tokens, err := t.Encode(text)
		if err != nil {
			return Finding{Code: CodeRoundTrip, Name: t.Name(), Detail: fmt.Sprintf("the %s prompt cannot be encoded: %s", name, oneLine(err.Error()))}
		}
		if again, err := t.Decode(tokens); err != nil || again != text {
			return Finding{Code: CodeRoundTrip, Name: t.Name(), Detail: fmt.Sprintf("the %s prompt, encoded and decoded again, is another text", name)}
		}
	}
	return nil
}

// specialTokens are found in texts and broken up.
type specialTokens struct {
	names   []string
	pattern *regexp.Regexp // where the names are not known
}

// specialOf returns the special tokens of the counter's model, or, with no counter, what
// looks like one.
func specialOf(counter Counter) specialTokens {
	if counter == nil {
		return specialTokens{pattern: specialToken}
	}
	return specialTokens{names: counter.SpecialTokens()}
}

// find returns the first special token in text, "" if there is none.
func (s specialTokens) find(text string) string {
	if s.pattern != nil {
		return s.pattern.FindString(text)
	}
	i := slices.IndexFunc(s.names, func(name string) bool { return name != "" && strings.Contains(text, name) })
	if i < 0 {
		return ""
	}
	return s.names[i]
}

// breakUp puts a blank behind the first character of each special token.
func (s specialTokens) breakUp(text string) string {
	inert := func(token string) string {
		_, first := utf8.DecodeRuneInString(token)
		return token[:first] + " " + token[first:]
	}
	if s.pattern != nil {
		return s.pattern.ReplaceAllStringFunc(text, inert)
	}
	for _, name := range s.names {
		if name != "" {
			text = strings.ReplaceAll(text, name, inert(name))
		}
	}
	return text
}
