package onejob

import (
	stdjson "encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is what a caller wants: one intention under one idempotency key. A zero
// optional field means its default.
type Request struct {
	Owner       string             `json:"owner"`
	Key         string             `json:"key"` // the idempotency key: the owner's, for this one intention
	Kind        string             `json:"kind"`
	Provider    string             `json:"provider"`               // the primary one
	Fallbacks   []string           `json:"fallbacks,omitempty"`    // in order of preference
	Input       stdjson.RawMessage `json:"input"`                  // any JSON value; stored as it is written
	Timeout     Duration           `json:"timeout,omitzero"`       // silence of this length makes an attempt unknown; default: the provider's
	ListenFor   Duration           `json:"listen_for,omitzero"`    // listening for a late answer ends here; default: the provider's
	MaxAttempts int                `json:"max_attempts,omitempty"` // over the whole job; default [DefaultMaxAttempts]
	HedgeAfter  Duration           `json:"hedge_after,omitzero"`   // silence of this length starts a second attempt; default: never
	CallbackURL string             `json:"callback_url,omitempty"`
	Labels      map[string]string  `json:"labels,omitempty"`
}

// Bounds of a request.
const (
	DefaultTimeout     = 10 * time.Second // where neither request nor provider says otherwise
	DefaultListenFor   = 10 * time.Minute // likewise
	DefaultMaxAttempts = 3
	MostAttempts       = 100
	mostFallbacks      = 20
	mostLabels         = 50
	maxLabelBytes      = 200
	longestTimeout     = 24 * time.Hour
	longestListening   = 30 * 24 * time.Hour
)

// DecodeRequest reads the JSON form of a request. Member names are case-sensitive; an
// unknown one, or one that stands twice, is an [ErrInvalidRequest].
func DecodeRequest(text []byte) (Request, error) {
	var r Request
	if err := DecodeStrict("request", text, &r); err != nil {
		return Request{}, err
	}
	return r, nil
}

// DecodeStrict decodes one JSON value into v and refuses what v does not know. What
// names the value in the error's line.
func DecodeStrict(what string, text []byte, v any) error {
	err := json.Unmarshal(text, v, json.RejectUnknownMembers(true))
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return semanticError(what, semantic)
	}
	if err != nil {
		return jsonError(what, err)
	}
	return nil
}

func semanticError(what string, err *json.SemanticError) error {
	if err.JSONPointer != "" {
		what += ": member " + abbreviated(strings.TrimPrefix(string(err.JSONPointer), "/"))
	}
	switch {
	case errors.Is(err.Err, json.ErrUnknownName):
		return Errorf(CodeInvalidRequest, "%s is unknown: remove it or correct its name", what)
	case err.Err != nil:
		return Errorf(CodeInvalidRequest, "%s: %w", what, err.Err)
	}
	return Errorf(CodeInvalidRequest, "%s cannot be a JSON %s", what, kindName(err.JSONKind))
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return kind.String()
}

// Duration is a [time.Duration] that reads and writes as Go does: "10s", "1m30s".
type Duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return Errorf(CodeInvalidRequest, "%s is not a duration: write it like 10s or 1m30s", abbreviated(string(text)))
	}
	*d = Duration(parsed)
	return nil
}

// check returns an [ErrInvalidRequest] for what no catalog could make right.
func (r Request) check(limits Limits) error {
	if err := CheckIdentity(r.Owner, r.Key); err != nil {
		return err
	}
	if len(r.Input) == 0 {
		return Errorf(CodeInvalidRequest, "input is missing: give a JSON value, null if there is none")
	}
	if len(r.Input) > limits.InputBytes {
		return Errorf(CodeInvalidRequest, "input has %d bytes: the limit is %d", len(r.Input), limits.InputBytes)
	}
	if err := r.checkNumbers(); err != nil {
		return err
	}
	if err := checkCallback(r.CallbackURL); err != nil {
		return err
	}
	return checkLabels(r.Labels)
}

func (r Request) checkNumbers() error {
	for _, d := range []struct {
		name  string
		value Duration
		most  time.Duration
	}{{"timeout", r.Timeout, longestTimeout}, {"listen_for", r.ListenFor, longestListening}, {"hedge_after", r.HedgeAfter, longestTimeout}} {
		if value := time.Duration(d.value); value < 0 || value > d.most || value%time.Millisecond != 0 {
			return Errorf(CodeInvalidRequest, "%s %v is out of range: use whole milliseconds up to %v", d.name, value, d.most)
		}
	}
	if r.MaxAttempts < 0 || r.MaxAttempts > MostAttempts {
		return Errorf(CodeInvalidRequest, "max_attempts %d is out of range: use 1 to %d", r.MaxAttempts, MostAttempts)
	}
	return nil
}

func checkCallback(callback string) error {
	if callback == "" {
		return nil
	}
	u, err := url.Parse(callback)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(callback) > 2000 || !utf8.ValidString(callback) {
		return Errorf(CodeInvalidRequest, "callback_url %s is not an absolute http or https URL of at most 2000 bytes", abbreviated(callback))
	}
	return nil
}

func checkLabels(labels map[string]string) error {
	if len(labels) > mostLabels {
		return Errorf(CodeInvalidRequest, "%d labels are too many: use at most %d", len(labels), mostLabels)
	}
	for name, value := range labels {
		if err := CheckName("label", name, maxLabelBytes); err != nil {
			return err
		}
		if value == "" {
			continue
		}
		if err := CheckName("label "+name, value, maxLabelBytes); err != nil {
			return err
		}
	}
	return nil
}

// providers returns the primary and the fallbacks, in order.
func (r Request) providers() []string { return slices.Concat([]string{r.Provider}, r.Fallbacks) }
