package input_test

import (
	"strings"
	"testing"

	"github.com/onejob/onejob/provider/internal/input"
)

var streaming = input.Rules{
	Model: "m", Flags: []input.Flag{{Name: "stream", On: true}, {Name: "background"}},
	Absent: []input.Member{{Name: "stream_options", Value: `{"include_usage":true}`, With: "stream"}},
}

var plain = input.Rules{Model: "m", Flags: streaming.Flags[1:], Absent: streaming.Absent}

func TestBodyIsTheInputWithWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules       input.Rules
		input, want string
	}{
		{plain, `{}`, `{"model":"m"}`},
		{plain, " { \"a\" : 1.0e2, \"b\":\"\\u00e9\" }\n", `{"model":"m", "a" : 1.0e2, "b":"\u00e9" }`},
		{plain, `{"model":"m"}`, `{"model":"m"}`},
		{plain, `{"model":"\u006d","background":false}`, `{"model":"\u006d","background":false}`},
		{streaming, `{"a":1}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"a":1}`},
		{streaming, `{"a":1,"stream":true,"stream_options":{}}`, `{"model":"m","a":1,"stream":true,"stream_options":{}}`},
		{streaming, `{"a":1,"stream":false}`, `{"model":"m","a":1,"stream":false}`},
		{input.Rules{Model: `m"1`}, `{}`, `{"model":"m\"1"}`},
	} {
		got, err := c.rules.Body([]byte(c.input))
		if err != nil || string(got) != c.want {
			t.Errorf("%s becomes %s, want %s (%v)", c.input, got, c.want, err)
		}
	}
}

func TestInputThatSaysOtherwiseIsRefusedInOneLine(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		`{"model":"n"}`:             `"n"`,
		`{"model":null}`:            `null`,
		`{"model":["m"]}`:           `["m"]`,
		`{"background":true}`:       `background: true`,
		`{"background":"yes"}`:      `"yes"`,
		`[]`:                        `no JSON object`,
		`"text"`:                    `no JSON object`,
		`{"a":1`:                    `cannot be read`,
		`{"model":"m","model":"n"}`: `cannot be read`,
	} {
		_, err := plain.Body([]byte(text))
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
