package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/onejob/onejob"
)

// identityVersion is that of the canonical content. A change of what it holds, or of a
// default, gives it a new number.
const identityVersion = 1

// identity is the SHA-256 of the canonical content: defaults filled in, files beside the
// contract included, in the one spelling of [onejob.CanonicalJSON].
func (r *reader) identity() (string, error) {
	content, err := json.Marshal(map[string]any{
		"identity":       identityVersion,
		"version":        r.Version,
		"kind":           r.Kind,
		"side_effects":   r.SideEffects,
		"prompt":         Prompt{r.systemText.text, r.userText.text},
		"input_schema":   json.RawMessage(r.inputSchema.text),
		"output_schema":  json.RawMessage(r.outputSchema.text),
		"unknown_keys":   r.UnknownKeys,
		"special_tokens": r.NeutraliseInput,
		"rules":          r.Rules,
		"parameters":     r.Parameters,
		"ends":           r.Ends,
		"cases":          r.Cases,
		"canary":         r.Canary,
		"ceilings":       map[string]any{"latency_ms": r.Ceilings.Latency.Milliseconds(), "cost": json.Number(r.Ceilings.Cost.String()), "currency": r.Ceilings.Currency},
		"certificate":    map[string]any{"valid_for_ms": r.ValidFor.Milliseconds(), "keep_payloads": r.KeepPayloads},
	})
	if err != nil {
		return "", err
	}
	const levelsAround = 5 // of a JSON value within the content
	canonical, err := onejob.CanonicalJSON("the contract", content, mostDepth+levelsAround)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
