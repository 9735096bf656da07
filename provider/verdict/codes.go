package verdict

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// statusOfCode says which status an error's code stands for. The codes are those that
// providers document for their APIs (OpenAI, Anthropic, Google, and the names of the
// statuses themselves); one that is missing here leaves a call unknown.
var statusOfCode = map[string]int{
	"bad_request": 400, "invalid_request": 400, "invalid_request_error": 400, "invalid_argument": 400, "invalid_prompt": 400, "INVALID_ARGUMENT": 400,
	"context_length_exceeded": 400, "failed_precondition": 400, "FAILED_PRECONDITION": 400,
	"authentication_error": 401, "invalid_api_key": 401, "unauthenticated": 401, "UNAUTHENTICATED": 401, "unauthorized": 401,
	"billing_error": 402, "billing_hard_limit_reached": 402, "insufficient_credit": 402, "insufficient_credits": 402,
	"contract_spend_limit_reached": 402, "enforced_spend_limit_reached": 402, "linked_organization_spend_limit_reached": 402,
	"insufficient_funds": 402, "insufficient_quota": 402, "payment_required": 402, "quota_exceeded": 402,
	"forbidden": 403, "permission_denied": 403, "PERMISSION_DENIED": 403, "permission_error": 403,
	"model_not_found": 404, "not_found": 404, "NOT_FOUND": 404, "not_found_error": 404,
	"method_not_allowed": 405,
	"request_timeout":    408,
	"conflict":           409, "conflict_error": 409,
	"payload_too_large": 413, "request_too_large": 413,
	"unsupported_media_type": 415,
	"unprocessable_entity":   422, "validation_error": 422,
	"rate_limit_error": 429, "rate_limit_exceeded": 429, "rate_limited": 429, "RESOURCE_EXHAUSTED": 429, "too_many_requests": 429,
	"api_error": 500, "internal": 500, "INTERNAL": 500, "internal_error": 500, "internal_server_error": 500, "server_error": 500,
	"bad_gateway":         502,
	"service_unavailable": 503, "unavailable": 503, "UNAVAILABLE": 503,
	"DEADLINE_EXCEEDED": 504, "gateway_timeout": 504, "timeout": 504, "timeout_error": 504,
	"overloaded": 529, "overloaded_error": 529,
}

// status returns the status that the error's first known code stands for, or 0.
func (m Message) status() int {
	for _, code := range m.Codes {
		if status := statusOfCode[code]; status != 0 {
			return status
		}
		if status, err := strconv.Atoi(code); err == nil && status >= 400 && status < 600 {
			return status
		}
	}
	return 0
}

// quota says that a code tells of our account at the provider being exhausted.
func (m Message) quota() bool {
	return slices.ContainsFunc(m.Codes, func(code string) bool { return statusOfCode[code] == http.StatusPaymentRequired })
}

// refused says that the provider declares the answer 'not now'. A timeout is never
// certain, whatever code it carries.
func (c Certain) refused(status int, m Message) bool {
	return !timeoutStatus(status) && (slices.Contains(c.Refused, status) || m.hasOneOf(c.RefusedCodes))
}

// noEffect says that the provider declares the answer a final no; see refused.
func (c Certain) noEffect(status int, m Message) bool {
	return !timeoutStatus(status) && (slices.Contains(c.NoEffect, status) || m.hasOneOf(c.NoEffectCodes))
}

func (m Message) hasOneOf(codes []string) bool {
	return slices.ContainsFunc(m.Codes, func(code string) bool { return slices.Contains(codes, code) })
}

// Check refuses to call a timeout, a success or a redirect certain.
func (c Certain) Check() error {
	for _, status := range slices.Concat(c.NoEffect, c.Refused) {
		if status < 400 || status > 599 || timeoutStatus(status) {
			return fmt.Errorf("status %d cannot be declared certain: name a 4xx or 5xx that is no timeout", status)
		}
	}
	for _, code := range slices.Concat(c.NoEffectCodes, c.RefusedCodes) {
		if timeoutStatus(statusOfCode[code]) {
			return fmt.Errorf("code %q cannot be declared certain: it is a timeout", code)
		}
	}
	return nil
}

func timeoutStatus(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout
}
