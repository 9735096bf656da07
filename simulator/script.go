package simulator

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
)

// Script says what the simulator answers to requests that say something: a model's part, word by
// word. It is for requests without directives, and takes the place of what the plan would draw.
type Script struct {
	// Only is the provider's name, of the path; empty: any.
	Only string `json:"only,omitempty"`

	// Contains is what the texts of the request's body have, one after the other; empty:
	// whatever they say. The first script that fits a request is its own.
	Contains string `json:"contains,omitempty"`

	// Answers are the directives of the requests, in the order in which they come; behind the
	// last one the first comes again.
	Answers []Directives `json:"answers"`
}

func (s Script) check() error {
	if len(s.Answers) == 0 {
		return errors.New("a script has no answers: give at least one")
	}
	for _, d := range s.Answers {
		if err := d.check(); err != nil {
			return err
		}
	}
	return nil
}

// script returns the script that the request follows; nil: none.
func (p Plan) script(provider string, input []byte) *Script {
	if len(p.Scripts) == 0 {
		return nil
	}
	said := texts(input)
	for i, s := range p.Scripts {
		if (s.Only == "" || s.Only == provider) && strings.Contains(said, s.Contains) {
			return &p.Scripts[i]
		}
	}
	return nil
}

// texts are the strings of a JSON value, each on lines of its own.
func texts(input []byte) string {
	var value any
	if json.Unmarshal(input, &value) != nil {
		return ""
	}
	var all strings.Builder
	collect(value, &all)
	return all.String()
}

func collect(value any, all *strings.Builder) {
	switch v := value.(type) {
	case string:
		all.WriteString(v)
		all.WriteByte('\n')
	case []any:
		for _, item := range v {
			collect(item, all)
		}
	case map[string]any:
		for _, item := range v {
			collect(item, all)
		}
	}
}

// scripts counts how far each script is.
type scripts struct {
	mu   sync.Mutex
	next map[scriptKey]int
}

type scriptKey struct{ only, provider, contains string }

// answer returns the directives of the next request of the provider that follows the script.
func (s *scripts) answer(provider string, script *Script) Directives {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = map[scriptKey]int{}
	}
	key := scriptKey{script.Only, provider, script.Contains}
	n := s.next[key]
	if n > 0 || len(s.next) < mostScripts {
		s.next[key] = n + 1
	}
	return script.Answers[n%len(script.Answers)]
}
