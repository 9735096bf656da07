package activities

import (
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob"
)

// errorTypes are the types of Temporal's application errors by code.
var errorTypes = map[onejob.Code]string{
	onejob.CodeInvalidRequest:    "InvalidRequest",
	onejob.CodeConflict:          "IdempotencyConflict",
	onejob.CodeIdentityMismatch:  "IdentityMismatch",
	onejob.CodeNotFound:          "NotFound",
	onejob.CodeAttemptUnresolved: "AttemptUnresolved",
	onejob.CodeNothingToResolve:  "NothingToResolve",
	onejob.CodeJobClosed:         "JobClosed",
	onejob.CodeNotCertified:      "NotCertified",
	onejob.CodeJobFailed:         "JobFailed",
	onejob.CodeBudgetExceeded:    "BudgetExceeded",
	onejob.CodeMisconfigured:     "Misconfigured",
	onejob.CodeServerUnreachable: "ServerUnreachable",
	onejob.CodeInternal:          "Internal",
}

// TemporalError returns err as an application error of its code's type. It is final
// unless waiting may mend it: a server that does not answer, or lacks what onejob needs,
// or does what nobody expected. An error without a code, a cancellation for instance, is
// returned as it is.
func TemporalError(err error) error { return temporalError(err, mayMend) }

// answerNow is TemporalError for an activity that somebody waits for: what nobody
// expected is said at once.
func answerNow(err error) error {
	return temporalError(err, func(code onejob.Code) bool { return mayMend(code) && code != onejob.CodeInternal })
}

func mayMend(code onejob.Code) bool {
	return code == onejob.CodeServerUnreachable || code == onejob.CodeMisconfigured || code == onejob.CodeInternal
}

func temporalError(err error, mayMend func(onejob.Code) bool) error {
	code := onejob.CodeOf(err)
	kind, ok := errorTypes[code]
	if err == nil || !ok {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), kind, temporal.ApplicationErrorOptions{NonRetryable: !mayMend(code)})
}

// FromTemporal returns an application error that [TemporalError] made as the error it
// was made of, and any other error as it is.
func FromTemporal(err error) error {
	app, ok := errors.AsType[*temporal.ApplicationError](err)
	if !ok {
		return err
	}
	for code, kind := range errorTypes {
		if kind == app.Type() {
			return onejob.Errorf(code, "%s", app.Message())
		}
	}
	return err
}
