package activities

import (
	"errors"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob"
)

func TestErrorsKeepTheirCodeAcrossTemporal(t *testing.T) {
	t.Parallel()
	for code, kind := range errorTypes {
		sent := TemporalError(onejob.Errorf(code, "what is wrong"))
		app, ok := errors.AsType[*temporal.ApplicationError](sent)
		if !ok || app.Type() != kind {
			t.Errorf("%s became %v", code, sent)
			continue
		}
		waits := code == onejob.CodeServerUnreachable || code == onejob.CodeMisconfigured || code == onejob.CodeInternal
		if app.NonRetryable() == waits {
			t.Errorf("%s: final %v", code, app.NonRetryable())
		}
		if got := FromTemporal(sent); onejob.CodeOf(got) != code || got.Error() != "what is wrong" {
			t.Errorf("%s came back as %v", code, got)
		}
	}
	if other := errors.New("other"); TemporalError(other) != other || FromTemporal(other) != other || TemporalError(nil) != nil {
		t.Error("an error without a code was changed")
	}
}
