package onejob

import (
	"errors"
	"fmt"
)

// Code classifies what went wrong, the same at every door. Exit codes, HTTP
// statuses and Temporal's error types are looked up by it.
type Code string

// The codes.
const (
	CodeInvalidRequest    Code = "invalid_request"      // the request cannot be a job as it stands; nothing was stored
	CodeConflict          Code = "idempotency_conflict" // the key belongs to another intent of the owner; nothing was changed
	CodeIdentityMismatch  Code = "identity_mismatch"    // a workflow runs under an ID that is not its job's
	CodeNotFound          Code = "not_found"            // no such job or attempt
	CodeAttemptUnresolved Code = "attempt_unresolved"   // an attempt is under way, unknown or undecided
	CodeNothingToResolve  Code = "nothing_to_resolve"   // no attempt is waiting for this decision
	CodeJobClosed         Code = "job_closed"           // the job has an outcome that this would change
	CodeNotCertified      Code = "not_certified"        // the provider has no valid certificate for the contract of the job's kind
	CodeJobFailed         Code = "job_failed"           // the job failed; its error says why
	CodeBudgetExceeded    Code = "budget_exceeded"      // the job may come to more than is left of its owner's budget; nothing was stored
	CodeServerUnreachable Code = "server_unreachable"   // Postgres or Temporal does not answer
	CodeMisconfigured     Code = "misconfigured"        // a server or file lacks what onejob needs
	CodeInternal          Code = "internal"             // a defect of onejob; the same again would fail again
)

// The sentinels of the codes, for errors.Is.
var (
	ErrInvalidRequest    = &Error{Code: CodeInvalidRequest}
	ErrConflict          = &Error{Code: CodeConflict}
	ErrIdentityMismatch  = &Error{Code: CodeIdentityMismatch}
	ErrNotFound          = &Error{Code: CodeNotFound}
	ErrAttemptUnresolved = &Error{Code: CodeAttemptUnresolved}
	ErrNothingToResolve  = &Error{Code: CodeNothingToResolve}
	ErrJobClosed         = &Error{Code: CodeJobClosed}
	ErrNotCertified      = &Error{Code: CodeNotCertified}
	ErrJobFailed         = &Error{Code: CodeJobFailed}
	ErrBudgetExceeded    = &Error{Code: CodeBudgetExceeded}
	ErrServerUnreachable = &Error{Code: CodeServerUnreachable}
	ErrMisconfigured     = &Error{Code: CodeMisconfigured}
	ErrInternal          = &Error{Code: CodeInternal}
)

// Error is an error with a code. Its message is one line in lower case that names
// the value and the remedy.
type Error struct {
	Code    Code
	Message string
	cause   error
}

// Errorf returns an [Error] with the code; a %w in format becomes its cause.
func Errorf(code Code, format string, args ...any) error {
	wrapped := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: wrapped.Error(), cause: errors.Unwrap(wrapped)}
}

func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return e.Message
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Is says that target is an [Error] of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first [Error] in err's chain, or "".
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// UnresolvedError returns the [ErrAttemptUnresolved] that names the attempt and the ways
// out.
func UnresolvedError(jobID string, a Attempt) error {
	return Errorf(CodeAttemptUnresolved,
		"attempt %d on %s is %s: wait for its answer, or end it with 'onejob attempt cancel %s %d --reason …' or 'onejob attempt resolve %s %d --as failed|succeeded'",
		a.Number, a.Provider, a.State, jobID, a.Number, jobID, a.Number)
}
