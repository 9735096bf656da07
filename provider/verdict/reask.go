package verdict

import (
	"net/http"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

// ReAsk judges the answer to a call that is sent again, the same bytes under the same
// key. It means what it means for a call, except for a no that depends on more than the
// bytes (credentials, quota, a busy provider, what a configuration declares): the first
// request may have met something else, so the call stays Unknown.
func (j Judge) ReAsk(r Received) provider.Answer {
	answer := j.Answer(r)
	if answer.Certainty == provider.Failed && !j.aboutTheBytes(r, answer) {
		return Undecided(answer)
	}
	return answer
}

// refusesBytes are the statuses of a no that the same bytes get every time.
var refusesBytes = map[int]bool{
	http.StatusBadRequest: true, http.StatusRequestEntityTooLarge: true,
	http.StatusUnsupportedMediaType: true, http.StatusUnprocessableEntity: true,
}

func (j Judge) aboutTheBytes(r Received, answer provider.Answer) bool {
	m, _ := Read(r.Body, j.Limits.Depth) // of an unreadable body the status counts
	status := r.Status
	if isSuccess(status) {
		if !m.Failed || answer.Reason != onejob.ReasonRejected {
			return !answer.Retryable && answer.Reason != onejob.ReasonProviderQuota // an outcome
		}
		status = m.status()
	}
	return answer.Reason == onejob.ReasonRejected && refusesBytes[status] && !j.Certain.noEffect(status, m)
}
