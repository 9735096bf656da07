// Package probe has what the checks of all adapters share: it reads answers to harmless
// questions, and tries whether a provider honours keys.
//
// It imports provider and verdict.
package probe

import (
	"fmt"
	"net/http"
	"time"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// Contact is an exchange with the provider that asked for nothing.
type Contact struct {
	Received   *verdict.Received // nil: no answer came
	Unanswered provider.Answer   // then
	At         time.Time         // when the answer came
}

// Status returns the answer's status, 0 if none came.
func (c Contact) Status() int {
	if c.Received == nil {
		return 0
	}
	return c.Received.Status
}

// Reachable says whether an answer came.
func (c Contact) Reachable() provider.Finding {
	if c.Received == nil {
		return Found(provider.FindingReachable, provider.VerdictFailed, "no answer: %s", c.Unanswered.Detail)
	}
	return Found(provider.FindingReachable, provider.VerdictOK, "status %d", c.Received.Status)
}

// aboutUs returns the answer's status if it depends on who asks: a success, a refusal of
// the credentials, or an error object of the API about what is not there. A bare 404 may
// come from anything on the way.
func (c Contact) aboutUs() int {
	status := c.Status()
	if status == http.StatusNotFound || status == http.StatusGone {
		if m, err := verdict.Read(c.Received.Body, mostDepth); err != nil || !m.Failed {
			return 0
		}
		return status
	}
	if Refuses(status) || status >= 200 && status < 300 {
		return status
	}
	return 0
}

const mostDepth = 200

// Credentials says whether the provider took ours, as far as its answers tell.
func Credentials(contacts ...Contact) provider.Finding {
	accepted := 0
	for _, c := range contacts {
		switch status := c.aboutUs(); {
		case Refuses(status):
			return Found(provider.FindingCredentials, provider.VerdictFailed, "status %d: check the key and what it may do", status)
		case status != 0:
			accepted = status
		}
	}
	if accepted == 0 {
		return Found(provider.FindingCredentials, provider.VerdictUnknown, "the answers do not say")
	}
	return Found(provider.FindingCredentials, provider.VerdictOK, "status %d", accepted)
}

// Refuses says that a status is about the credentials.
func Refuses(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// mostSkew is how far two clocks may be apart: a date has whole seconds, and an answer
// takes its time.
const mostSkew = 10 * time.Second

// Clock compares the provider's clock with ours.
func (c Contact) Clock() provider.Finding {
	if c.Received == nil {
		return Found(provider.FindingClock, provider.VerdictUnknown, "no answer came")
	}
	date, err := http.ParseTime(c.Received.Header.Get("Date"))
	if err != nil {
		return Found(provider.FindingClock, provider.VerdictUnknown, "the answer has no Date")
	}
	skew := c.At.Sub(date).Round(time.Second)
	if skew.Abs() > mostSkew {
		return Found(provider.FindingClock, provider.VerdictWarning, "our clock is %v from the provider's: signatures of callbacks may be refused, synchronise it", skew)
	}
	return Found(provider.FindingClock, provider.VerdictOK, "within %v", mostSkew)
}

// Asked judges the answer about a call that does not exist: a provider that can be asked
// says so.
func Asked(name string, status int) provider.Finding {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return Found(name, provider.VerdictOK, "status %d for a call that does not exist", status)
	case Refuses(status), status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		return Found(name, provider.VerdictFailed, "status %d for a call that does not exist", status)
	case status == 0:
		return Found(name, provider.VerdictUnknown, "no answer came")
	}
	return Found(name, provider.VerdictUnknown, "status %d for a call that does not exist: 404 would say that it can be asked", status)
}

// Found returns a finding.
func Found(name string, v provider.Verdict, format string, args ...any) provider.Finding {
	return provider.Finding{Name: name, Verdict: v, Detail: fmt.Sprintf(format, args...)}
}

// Cleaned returns the findings without secrets.
func Cleaned(secrets provider.Secrets, findings ...provider.Finding) []provider.Finding {
	for i := range findings {
		findings[i].Detail = secrets.Clean(findings[i].Detail)
	}
	return findings
}
