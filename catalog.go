package onejob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Catalog is what the configuration offers to requests: the kinds of job, the
// providers with their defaults, the limits.
type Catalog struct {
	Kinds     map[string]Kind
	Providers map[string]ProviderDefaults
	Limits    Limits
}

// Kind is a kind of job.
type Kind struct {
	SideEffects bool      // an attempt changes something outside; two must never run beside each other
	Contract    *Contract // what its jobs ask, and what a reply must be; nil: a job's input is the provider's own request
	Hold        bool      // with no certified provider left a job waits for a certificate, or somebody; false: it fails
	Suspend     Suspension
}

// prompt returns the bytes of what a provider is asked, and how many tokens its answer may
// have. It returns an [ErrInvalidRequest] if the contract of the kind cannot ask for the input.
func (k Kind) prompt(name string, input []byte) (bytes int, answer int64, err error) {
	if k.Contract == nil {
		return len(input), AllowedOutput(input), nil
	}
	bytes, err = k.Contract.PromptBytes(input)
	if err != nil {
		return 0, 0, Errorf(CodeInvalidRequest, "the input does not fit the contract of kind %s: %w: correct the input, see %s", abbreviated(name), err, k.Contract.File)
	}
	return max(bytes, len(input)), int64(k.Contract.MaxTokens), nil
}

// Suspension says when a provider's replies in production take its certificate: as soon as
// so many of them broke the contract within so long. The zero value is the default; see
// [Suspension.OrDefault].
type Suspension struct {
	Violations int
	Within     time.Duration
}

// OrDefault returns s with the defaults for what is zero: 5 violations within an hour.
func (s Suspension) OrDefault() Suspension {
	return Suspension{Violations: cmp.Or(s.Violations, 5), Within: cmp.Or(s.Within, time.Hour)}
}

// Contract is what jobs have to know of the contract of their kind; package contract has
// the rest.
type Contract struct {
	SHA256    string // its identity, hex
	File      string // for people
	MaxTokens int    // of an answer

	PromptBytes func(input []byte) (int, error) // of the prompt for the input; an error: the input does not fit
	CheckReply  func(input, reply []byte) error // nil: the reply to the input is what it wants
}

// Uncertified returns the line that says what a provider lacks and how to get it. Why adds
// what became of a certificate that it had; empty: it had none.
func (c *Contract) Uncertified(provider, why string) string {
	if why != "" {
		why = ", " + why
	}
	return fmt.Sprintf("provider %q has no valid certificate for the contract %s (sha256 %.12s)%s: get one with 'onejob contract verify %s --provider %s'",
		provider, c.File, c.SHA256, why, c.File, provider)
}

// ProviderDefaults are the times of a provider that a request does not set itself, and
// what a job has to know of it.
type ProviderDefaults struct {
	Timeout   time.Duration
	ListenFor time.Duration
	Model     string // that it is asked for; empty: it has none. Prices are per model
	Limited   bool   // its calls are limited in number: they have a task queue of their own
	Adapter   string // the version of its adapter, which certificates are of; empty: it cannot be asked by a contract
}

// Reference returns the job's reference, which knows the limited providers among its own.
func (c Catalog) Reference(j *Job) Reference {
	ref := j.Reference()
	ref.Hold = c.Kinds[j.Kind].Hold
	for _, name := range ref.Plan().Providers {
		if c.Providers[name].Limited {
			ref.Limited = append(ref.Limited, name)
		}
	}
	return ref
}

// Limits bound what is stored. A zero limit means its default; see [Limits.OrDefault].
type Limits struct {
	InputBytes  int // of a job's input
	ResultBytes int // of a provider's answer
	Depth       int // of nesting, in both
}

// OrDefault returns l with the defaults for what is zero: 8 MiB of input, 16 MiB of
// result, 200 levels.
func (l Limits) OrDefault() Limits {
	if l.InputBytes == 0 {
		l.InputBytes = 8 << 20
	}
	if l.ResultBytes == 0 {
		l.ResultBytes = 16 << 20
	}
	if l.Depth == 0 {
		l.Depth = 200
	}
	return l
}

// check returns an [ErrInvalidRequest] if the catalog lacks what the request names.
func (c Catalog) check(r Request) error {
	kind, ok := c.Kinds[r.Kind]
	if !ok {
		return unknownName("kind", r.Kind, slices.Sorted(maps.Keys(c.Kinds)))
	}
	for i, name := range r.providers() {
		if err := c.CheckProvider(name); err != nil {
			return err
		}
		if slices.Contains(r.providers()[:i], name) {
			return Errorf(CodeInvalidRequest, "provider %q is named twice: name each once, in order of preference", name)
		}
	}
	if len(r.Fallbacks) > mostFallbacks {
		return Errorf(CodeInvalidRequest, "%d fallbacks are too many: use at most %d", len(r.Fallbacks), mostFallbacks)
	}
	if r.HedgeAfter > 0 && kind.SideEffects {
		return Errorf(CodeInvalidRequest, "kind %q has side effects and cannot be hedged: leave hedge_after out", r.Kind)
	}
	return nil
}

func unknownName(what, name string, known []string) error {
	if name == "" {
		return Errorf(CodeInvalidRequest, "%s is missing: use one of %s", what, list(known))
	}
	return Errorf(CodeInvalidRequest, "%s %s is not configured: use one of %s, or add it to onejob.yaml", what, abbreviated(name), list(known))
}

func list(names []string) string {
	if len(names) == 0 {
		return "(none)"
	}
	return strings.Join(names, ", ")
}

// CheckProvider returns an [ErrInvalidRequest] if the catalog does not have the provider.
func (c Catalog) CheckProvider(name string) error {
	if _, ok := c.Providers[name]; !ok {
		return unknownName("provider", name, slices.Sorted(maps.Keys(c.Providers)))
	}
	return nil
}

// CheckResult returns an [ErrInvalidRequest] if the text cannot be a job's result.
func (l Limits) CheckResult(text []byte) error {
	limits := l.OrDefault()
	if len(text) > limits.ResultBytes {
		return Errorf(CodeInvalidRequest, "result has %d bytes: the limit is %d", len(text), limits.ResultBytes)
	}
	return CheckJSON("result", text, limits.Depth)
}
