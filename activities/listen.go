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
	// lookEvery is how often an execution that Temporal has given up on looks whether its
	// attempt is still wanted.
	lookEvery = 10 * time.Second
	// longestPause is the longest between two tries to tell of the silence.
	longestPause = 30 * time.Second
	// finishAnswer is what an answer that is on its way gets when its attempt is given up.
	finishAnswer = 2 * time.Second
)

// listener waits for the answer of one call, and for what may end the wait before it.
type listener struct {
	*execution
	answers  <-chan provider.Answer
	hangUp   context.CancelFunc
	recorded bool   // Postgres has the silence
	takeBack func() // ends the listening that was begun, if it was
}

// listen returns the answer. One that did not come is Unknown, with the reason why the
// listening ended.
func (l *listener) listen(ctx context.Context) provider.Answer {
	silence := time.NewTimer(time.Duration(l.in.Timeout))
	defer silence.Stop()
	end := time.NewTimer(time.Duration(l.in.ListenFor))
	defer end.Stop()
	looks := time.NewTicker(lookEvery)
	defer looks.Stop()
	defer func() {
		if l.takeBack != nil {
			l.takeBack()
		}
	}()
	given, stopping := ctx.Done(), activity.GetWorkerStopChannel(ctx)
	var look <-chan time.Time // ticks once Temporal tells us nothing any more
	for pause := time.Second; ; {
		select {
		case answer := <-l.answers:
			return answer
		case <-silence.C:
			l.giveWay()
			if !l.tellSilence() {
				silence.Reset(pause)
				pause = min(2*pause, longestPause)
			}
		case <-end.C:
			return l.hangUpAfter(0, onejob.ReasonListenEnded)
		case <-given:
			given, look, l.believed = nil, looks.C, false
			if !l.wanted() {
				return l.giveUp()
			}
		case <-look:
			if !l.wanted() {
				return l.giveUp()
			}
		case <-stopping:
			return l.hangUpAfter(l.Drain, onejob.ReasonWorkerShutdown)
		}
	}
}

// giveUp asks the provider to give the call up, where it can be asked, and hangs up. An
// answer that is on its way is read to its end, so that its cost is known.
func (l *listener) giveUp() provider.Answer {
	ctx, cancel := context.WithTimeout(l.alive, 2*cancelTimeout)
	defer cancel()
	if err := l.cancelGivenUp(ctx, l.in.JobID, l.in.Number); err != nil {
		l.Logger.Warn("the provider was not asked to give the attempt up", "job_id", l.in.JobID, "attempt", l.in.Number, "error", err)
	}
	return l.hangUpAfter(finishAnswer, onejob.ReasonCancelled)
}

// hangUpAfter waits a last moment for the answer, then closes the connection. An adapter
// that does not let go of it is left behind: its answer comes too late.
func (l *listener) hangUpAfter(moment time.Duration, why onejob.Reason) provider.Answer {
	if answer, ok := l.answerWithin(moment); ok {
		return answer
	}
	l.hangUp()
	answer, ok := l.answerWithin(onceTimeout)
	if !ok || answer.Certainty == provider.Unknown {
		answer.Certainty, answer.Reason = provider.Unknown, why
	}
	return answer
}

func (l *listener) answerWithin(moment time.Duration) (provider.Answer, bool) {
	last := time.NewTimer(moment)
	defer last.Stop()
	select {
	case answer := <-l.answers:
		return answer, true
	case <-last.C:
		return provider.Answer{}, false
	}
}

// giveWay lets others work in this attempt's place while it only listens.
func (l *listener) giveWay() {
	if l.takeBack == nil {
		l.takeBack = l.Listening.Begin(l.in.Provider)
	}
}

// tellSilence makes the attempt unknown in Postgres, then tells the workflow, which
// would not look by itself: it believes the attempt to be starting. It returns whether
// both have it.
func (l *listener) tellSilence() bool {
	if !l.recorded {
		ctx, cancel := context.WithTimeout(l.alive, onceTimeout)
		defer cancel()
		why := postgres.Silence{Reason: onejob.ReasonTimeout, Detail: "no answer within " + time.Duration(l.in.Timeout).String() + "; still listening"}
		recorded, err := l.Store.MarkUnknownIfLive(ctx, l.in.JobID, l.in.Number, why)
		if err != nil {
			l.Logger.Warn("cannot mark the attempt unknown yet", "job_id", l.in.JobID, "attempt", l.in.Number, "error", err)
			return false
		}
		l.recorded = true
		l.observe(l.alive, l.in.Provider, l.kind, recorded)
	}
	return l.tell()
}

// tell tells the workflow that the attempt's row changed. It returns whether that arrived.
func (e *execution) tell() bool {
	ctx, cancel := context.WithTimeout(e.alive, onceTimeout)
	defer cancel()
	if err := e.Tell.AttemptChanged(ctx, e.workflowID, e.in.Number); err != nil {
		e.Logger.Warn("cannot tell the workflow now", "job_id", e.in.JobID, "attempt", e.in.Number, "error", err)
		return false
	}
	return true
}
