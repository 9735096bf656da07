package verdict

import "github.com/onejob/onejob/provider"

// ReAsk judges the answer to a call that is sent again, the same bytes under the same
// key. Only an outcome in a 2xx is the call's. Whatever else comes leaves it Unknown: a no
// may be about the second request alone, 'this key was used already' for instance.
func (j Judge) ReAsk(r Received) provider.Answer {
	answer := j.Answer(r)
	m, _ := Read(r.Body, j.Limits.Depth) // what cannot be read is no success
	if answer.Certainty == provider.Failed && (!isSuccess(r.Status) || m.Failed) {
		return Undecided(answer)
	}
	return answer
}
