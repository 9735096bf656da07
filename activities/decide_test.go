package activities

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/onejob/onejob"
)

func TestDecisionsThatCannotBeRecordedAreRefused(t *testing.T) {
	t.Parallel()
	catalog := onejob.Catalog{Providers: map[string]onejob.ProviderDefaults{"primary": {}}}
	resolve := func(as onejob.AttemptState, result string) Decision {
		return Decision{Action: ActionResolveAttempt, By: "ana", As: as, Result: json.RawMessage(result)}
	}
	for name, d := range map[string]Decision{
		"blank by":            {Action: ActionCancelJob, By: " "},
		"no by":               {Action: ActionCancelJob},
		"long reason":         {Action: ActionCancelJob, By: "ana", Reason: strings.Repeat("x", maxReasonBytes+1)},
		"NUL in the reason":   {Action: ActionCancelJob, By: "ana", Reason: "a\x00"},
		"no UTF-8":            {Action: ActionCancelJob, By: "ana", Reason: "a\xff"},
		"negative attempt":    {Action: ActionCancelAttempt, By: "ana", Attempt: -1},
		"unknown provider":    {Action: ActionStartAttempt, By: "ana", Provider: "nobody"},
		"succeeded, nothing":  resolve(onejob.AttemptSucceeded, ""),
		"succeeded, no JSON":  resolve(onejob.AttemptSucceeded, "{"),
		"failed, a result":    resolve(onejob.AttemptFailed, "1"),
		"resolved as unknown": resolve(onejob.AttemptUnknown, ""),
	} {
		if err := d.check(catalog); !errors.Is(err, onejob.ErrInvalidRequest) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line that refuses it", name, err)
		}
	}
	for name, d := range map[string]Decision{
		"cancel":            {Action: ActionCancelAttempt, By: "ana", Attempt: 1, Reason: "stuck\nfor hours"},
		"start":             {Action: ActionStartAttempt, By: "ana", Provider: "primary"},
		"resolve, failed":   resolve(onejob.AttemptFailed, ""),
		"resolve, a result": resolve(onejob.AttemptSucceeded, `{"a": null}`),
	} {
		if err := d.check(catalog); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
	}
}
