package onejob

import (
	"crypto/sha256"
	"encoding/json"
)

// FingerprintVersion is the version that [Fingerprint] writes. A stored fingerprint
// is compared by the version that wrote it.
const FingerprintVersion = 1

// Intent is what a job is for: the part of a request that must be the same for the
// same key to mean the same job. Time-outs, attempts, labels and waiting are not
// intent.
type Intent struct {
	Kind        string
	Provider    string
	Fallbacks   []string // in order of preference
	Hedge       bool     // a second attempt may run beside a silent first one
	CallbackURL string   // empty: none
	Input       json.RawMessage
}

// Fingerprint returns the SHA-256 of the canonical intent. It is equal for two
// intents exactly if they differ in nothing but the spelling of the same JSON: member
// order, white space, escapes, ways to write the same number. It returns an
// [ErrInvalidRequest] if the input is not JSON as [CheckJSON] wants it.
func Fingerprint(i Intent, maxDepth int) ([sha256.Size]byte, error) {
	input, err := CanonicalJSON("input", i.Input, maxDepth)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	// An array of JSON values is injective: no field can run into the next one.
	head, err := json.Marshal([]any{"onejob.intent", FingerprintVersion, i.Kind, i.Provider, append([]string{}, i.Fallbacks...), i.Hedge, i.CallbackURL})
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	h := sha256.New()
	h.Write(head)
	h.Write(input)
	return [sha256.Size]byte(h.Sum(nil)), nil
}
