package onejob_test

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
	resolve := func(as onejob.AttemptState, result string) onejob.Decision {
		return onejob.Decision{Action: onejob.DecideResolveAttempt, By: "ana", As: as, Result: json.RawMessage(result)}
	}
	for name, d := range map[string]onejob.Decision{
		"blank by":            {Action: onejob.DecideCancelJob, By: " "},
		"no by":               {Action: onejob.DecideCancelJob},
		"long reason":         {Action: onejob.DecideCancelJob, By: "ana", Reason: strings.Repeat("x", 4097)},
		"NUL in the reason":   {Action: onejob.DecideCancelJob, By: "ana", Reason: "a\x00"},
		"no UTF-8":            {Action: onejob.DecideCancelJob, By: "ana", Reason: "a\xff"},
		"negative attempt":    {Action: onejob.DecideCancelAttempt, By: "ana", Attempt: -1},
		"unknown provider":    {Action: onejob.DecideStartAttempt, By: "ana", Provider: "nobody"},
		"succeeded, nothing":  resolve(onejob.AttemptSucceeded, ""),
		"succeeded, no JSON":  resolve(onejob.AttemptSucceeded, "{"),
		"failed, a result":    resolve(onejob.AttemptFailed, "1"),
		"resolved as unknown": resolve(onejob.AttemptUnknown, ""),
	} {
		if err := d.Check(catalog); !errors.Is(err, onejob.ErrInvalidRequest) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line that refuses it", name, err)
		}
	}
	for name, d := range map[string]onejob.Decision{
		"cancel":            {Action: onejob.DecideCancelAttempt, By: "ana", Attempt: 1, Reason: "stuck\nfor hours"},
		"start":             {Action: onejob.DecideStartAttempt, By: "ana", Provider: "primary"},
		"resolve, failed":   resolve(onejob.AttemptFailed, ""),
		"resolve, a result": resolve(onejob.AttemptSucceeded, `{"a": null}`),
	} {
		if err := d.Check(catalog); err != nil {
			t.Errorf("%s: refused: %v", name, err)
		}
	}
}
