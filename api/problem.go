package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/onejob/onejob"
)

// ProblemBase is what the type of every problem begins with. It names the problem and is no
// address.
const ProblemBase = "https://github.com/onejob/onejob/problems/"

// ProblemType is a kind of problem: programs branch on its name.
type ProblemType struct {
	Name   string // the end of the type's URI
	Status int
	Title  string
}

// URI is the type member of the problem.
func (t ProblemType) URI() string { return ProblemBase + t.Name }

// The problems. Their names are for ever.
var (
	invalidRequest     = ProblemType{"invalid-request", http.StatusBadRequest, "The request cannot be taken as it stands"}
	keyMissing         = ProblemType{"idempotency-key-missing", http.StatusBadRequest, "The header Idempotency-Key is missing"}
	keyInvalid         = ProblemType{"idempotency-key-invalid", http.StatusBadRequest, "The header Idempotency-Key is not one key"}
	unauthorized       = ProblemType{"unauthorized", http.StatusUnauthorized, "A valid token is needed"}
	budgetExceeded     = ProblemType{"budget-exceeded", http.StatusPaymentRequired, "The owner's budget does not allow it"}
	forbidden          = ProblemType{"forbidden", http.StatusForbidden, "The token's role does not allow it"}
	notFound           = ProblemType{"not-found", http.StatusNotFound, "There is no such thing"}
	methodNotAllowed   = ProblemType{"method-not-allowed", http.StatusMethodNotAllowed, "The path does not know this method"}
	requestTimeout     = ProblemType{"request-timeout", http.StatusRequestTimeout, "The request did not arrive in time"}
	conflict           = ProblemType{"idempotency-conflict", http.StatusConflict, "The key belongs to another intent"}
	attemptUnresolved  = ProblemType{"attempt-unresolved", http.StatusConflict, "An attempt of the job is unresolved"}
	nothingToResolve   = ProblemType{"nothing-to-resolve", http.StatusConflict, "Nothing waits for this decision"}
	jobClosed          = ProblemType{"job-closed", http.StatusConflict, "The job has an outcome that this would change"}
	notCertified       = ProblemType{"not-certified", http.StatusConflict, "The provider has not proved that it honours the job's contract"}
	tooLarge           = ProblemType{"too-large", http.StatusRequestEntityTooLarge, "The body is too long"}
	unsupportedMedia   = ProblemType{"unsupported-media-type", http.StatusUnsupportedMediaType, "The body is not application/json"}
	rateLimited        = ProblemType{"rate-limited", http.StatusTooManyRequests, "Too many requests"}
	receiverFailed     = ProblemType{"receiver-failed", http.StatusBadGateway, "The receiver did not take the test"}
	internal           = ProblemType{"internal", http.StatusInternalServerError, "A defect of onejob"}
	misconfigured      = ProblemType{"misconfigured", http.StatusInternalServerError, "A server lacks what onejob needs"}
	unavailable        = ProblemType{"unavailable", http.StatusServiceUnavailable, "Not now: send it again, with the same key"}
	problemsInOrder    = []ProblemType{invalidRequest, keyMissing, keyInvalid, unauthorized, budgetExceeded, forbidden, notFound, methodNotAllowed, requestTimeout, conflict, attemptUnresolved, nothingToResolve, jobClosed, notCertified, tooLarge, unsupportedMedia, rateLimited, internal, misconfigured, receiverFailed, unavailable}
	problemsOfTheCodes = map[onejob.Code]ProblemType{
		onejob.CodeInvalidRequest:    invalidRequest,
		onejob.CodeConflict:          conflict,
		onejob.CodeIdentityMismatch:  internal,
		onejob.CodeNotFound:          notFound,
		onejob.CodeAttemptUnresolved: attemptUnresolved,
		onejob.CodeNothingToResolve:  nothingToResolve,
		onejob.CodeJobClosed:         jobClosed,
		onejob.CodeNotCertified:      notCertified,
		onejob.CodeBudgetExceeded:    budgetExceeded,
		onejob.CodeServerUnreachable: unavailable,
		onejob.CodeMisconfigured:     misconfigured,
		onejob.CodeInternal:          internal,
	}
)

// Problems lists every type that the door answers with.
func Problems() []ProblemType { return problemsInOrder }

// Problem is what the door answers instead of what was asked for (RFC 9457).
type Problem struct {
	Type   string `json:"type" format:"uri" doc:"Which problem it is, for ever; docs/http.md lists them." example:"https://github.com/onejob/onejob/problems/idempotency-conflict"`
	Title  string `json:"title" doc:"The type in words." example:"The key belongs to another intent"`
	Status int    `json:"status" doc:"The HTTP status." example:"409"`
	Detail string `json:"detail" doc:"What was wrong, with which value, and what to do: one line." example:"key \"parcel-1\" of owner \"acme\" belongs to job 0199… with another intent: use a new key for a new intention"`

	header http.Header
}

// newProblem returns a problem of the type.
func newProblem(t ProblemType, format string, args ...any) *Problem {
	return &Problem{Type: t.URI(), Title: t.Title, Status: t.Status, Detail: fmt.Sprintf(format, args...)}
}

// with adds a header to the answer.
func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus implements [huma.StatusError].
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements [huma.HeadersError].
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType implements [huma.ContentTypeFilter].
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// problemOf returns the problem that the error is. What a server said goes to the log, under
// ours, and not to the client: it may name hosts and accounts.
func problemOf(logger *slog.Logger, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	t, known := problemsOfTheCodes[onejob.CodeOf(err)]
	switch {
	case errors.Is(err, context.Canceled): // nobody reads it
		return newProblem(unavailable, "the request ended early")
	case !known || t.Status == http.StatusInternalServerError:
		logger.Error("a request failed", "error", err)
		if !known {
			t = internal
		}
		return newProblem(t, "it is in the log of this instance")
	case t == unavailable:
		logger.Warn("a request was turned away", "error", err)
		return newProblem(t, "a server behind the door does not answer").with("Retry-After", "1")
	}
	return newProblem(t, "%s", err.Error())
}

// write answers with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // a client that went away reads nothing
}

// problemTypes are the types of what huma finds wrong by itself, by its status.
var problemTypes = map[int]ProblemType{
	http.StatusBadRequest:            invalidRequest,
	http.StatusUnprocessableEntity:   invalidRequest,
	http.StatusRequestTimeout:        requestTimeout,
	http.StatusRequestEntityTooLarge: tooLarge,
	http.StatusUnsupportedMediaType:  unsupportedMedia,
}

// Huma makes its own errors by this function, of which it has one for the process.
func init() {
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, causes ...error) huma.StatusError {
		return foundByHuma(status, message, causes...)
	}
	huma.NewError = foundByHuma
}

func foundByHuma(status int, message string, causes ...error) huma.StatusError {
	t, known := problemTypes[status]
	if !known {
		t = internal
	}
	var lines []string
	for _, cause := range causes {
		if d, ok := errors.AsType[*huma.ErrorDetail](cause); ok {
			lines = append(lines, place(d)+": "+d.Message)
		} else if cause != nil {
			lines = append(lines, cause.Error())
		}
	}
	if len(lines) == 0 {
		lines = []string{message}
	}
	return newProblem(t, "%s", onejob.Shorten(strings.Join(lines, "; "), 1000))
}

// place is where huma found something wrong, and with which value.
func place(d *huma.ErrorDetail) string {
	if d.Value == nil || d.Value == "" {
		return d.Location
	}
	return d.Location + " " + onejob.Shorten(fmt.Sprintf("%q", fmt.Sprint(d.Value)), 100)
}
