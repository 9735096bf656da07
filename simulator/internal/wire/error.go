package wire

import (
	"net/http"
	"strings"
)

// Error is a vendor's no.
type Error struct {
	Status  int
	Code    string // the vendor's; empty: the one of the status
	Message string
}

// OpenAI words the error as OpenAI does.
func (e Error) OpenAI() []byte { return marshal(object{"error": e.openAI()}) }

func (e Error) openAI() object {
	kind, code := openAIKind(e.Status)
	if e.Code != "" {
		kind, code = kindOfCode(e.Code, kind), e.Code
	}
	return object{"message": e.Message, "type": kind, "param": nil, "code": code}
}

// openAIKind returns the type and the code (nil: none) of a status.
func openAIKind(status int) (kind string, code any) {
	switch {
	case status == http.StatusUnauthorized:
		return "invalid_request_error", "invalid_api_key"
	case status == http.StatusForbidden:
		return "request_forbidden", "unsupported_country_region_territory"
	case status == http.StatusTooManyRequests:
		return "requests", "rate_limit_exceeded"
	case status == http.StatusServiceUnavailable:
		return "service_unavailable_error", "server_is_overloaded"
	case status >= http.StatusInternalServerError:
		return "server_error", nil
	}
	return "invalid_request_error", nil
}

// kindOfCode returns the type that a code comes with, else the status's.
func kindOfCode(code, kind string) string {
	switch code {
	case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded":
		return "insufficient_quota"
	case "slow_down":
		return "rate_limit_error"
	case "server_is_overloaded":
		return "service_unavailable_error"
	case "server_error":
		return "server_error"
	}
	return kind
}

// Anthropic words the error as Anthropic does.
func (e Error) Anthropic(requestID string) []byte {
	return marshal(object{"type": "error", "error": e.anthropic(), "request_id": requestID})
}

// anthropic has the code as its type, or, if it names a cause, in its details.
func (e Error) anthropic() object {
	told := object{"type": anthropicKind(e.Status), "message": e.Message}
	switch {
	case strings.HasSuffix(e.Code, "_error"), e.Code == "request_too_large":
		told["type"] = e.Code
	case e.Code != "":
		told["details"] = object{"error_code": e.Code}
	}
	return told
}

func anthropicKind(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusPaymentRequired:
		return "billing_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusConflict:
		return "conflict_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}
