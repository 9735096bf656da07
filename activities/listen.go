package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

const (
	// onceTimeout bounds one exchange with Postgres or Temporal that may be given up.
	onceTimeout = 5 * time.Second
	// finishAnswer is what an answer that is on its way gets when its attempt is given up.
	finishAnswer = 2 * time.Second
)

// listener waits for the answer of one call, and for what may end the wait before it.
type listener struct {
	*execution
	answers <-chan provider.Answer
	hangUp  context.CancelFunc
}

// listen returns the answer. One that did not come is Unknown, with the reason why the
// listening ended.
func (l *listener) listen(ctx context.Context) provider.Answer {
	silence := time.NewTimer(time.Duration(l.in.Timeout))
	defer silence.Stop()
	end := time.NewTimer(time.Duration(l.in.ListenFor))
	defer end.Stop()
	given, stopping := ctx.Done(), activity.GetWorkerStopChannel(ctx)
	for {
		select {
		case answer := <-l.answers:
			return answer
		case <-silence.C:
			if !l.tellSilence() {
				silence.Reset(time.Second)
			}
		case <-end.C:
			return l.hangUpAfter(0, onejob.ReasonListenEnded)
		case <-given:
			given = nil
			l.believed = false
			if !l.wanted() {
				return l.hangUpAfter(finishAnswer, onejob.ReasonCancelled)
			}
		case <-stopping:
			return l.hangUpAfter(l.Drain, onejob.ReasonWorkerShutdown)
		}
	}
}

// hangUpAfter waits a last moment for the answer, then closes the connection.
func (l *listener) hangUpAfter(moment time.Duration, why onejob.Reason) provider.Answer {
	last := time.NewTimer(moment)
	defer last.Stop()
	select {
	case answer := <-l.answers:
		return answer
	case <-last.C:
	}
	l.hangUp()
	answer := <-l.answers
	if answer.Certainty == provider.Unknown {
		answer.Reason = why
	}
	return answer
}

// tellSilence makes the attempt unknown in Postgres, then tells the workflow. It returns
// whether Postgres has it.
func (l *listener) tellSilence() bool {
	ctx, cancel := context.WithTimeout(l.alive, onceTimeout)
	defer cancel()
	why := postgres.Silence{Reason: onejob.ReasonTimeout, Detail: "no answer within " + time.Duration(l.in.Timeout).String() + "; still listening"}
	recorded, err := l.Store.MarkUnknownIfLive(ctx, l.in.JobID, l.in.Number, why)
	if err != nil {
		l.Logger.Warn("cannot mark the attempt unknown yet", "job_id", l.in.JobID, "attempt", l.in.Number, "error", err)
		return false
	}
	l.observe(recorded)
	l.tell()
	return true
}

// tell tells the workflow that the attempt's row changed.
func (e *execution) tell() {
	ctx, cancel := context.WithTimeout(e.alive, onceTimeout)
	defer cancel()
	if err := e.Tell.AttemptChanged(ctx, e.workflowID, e.in.Number); err != nil {
		e.Logger.Warn("cannot tell the workflow; it will look by itself", "job_id", e.in.JobID, "attempt", e.in.Number, "error", err)
	}
}
