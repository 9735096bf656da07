package activities

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// SeekInput is the unknown attempt whose outcome is sought.
type SeekInput struct {
	JobID     string          `json:"job_id"`
	Number    int             `json:"number"`
	Provider  string          `json:"provider"`
	Exits     Exits           `json:"exits"`               // as they were when the search began
	Listening bool            `json:"listening,omitempty"` // its connection is open: it is not asked again meanwhile
	ListenFor onejob.Duration `json:"listen_for"`          // what the answer to a re-ask gets
}

// SeekReport says how the search ended.
type SeekReport struct {
	Exhausted bool `json:"exhausted,omitempty"` // nothing is left to ask; false: the rows have the outcome
}

// SeekOutcome asks the provider of an unknown attempt what became of it, by look-ups with
// backoff, and where it honours keys by sending the same bytes under the same key again,
// until the attempt has its outcome or nothing is left to ask. Time alone decides
// nothing: an attempt that nobody can be asked about stays unknown.
//
// It may be repeated, and run beside others: look-ups change nothing, and a re-ask is
// counted in the row before it is sent.
func (a *Activities) SeekOutcome(ctx context.Context, in SeekInput) (SeekReport, error) {
	patient, release := untilWorkerStops(ctx)
	defer release()
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	defer endAfterStop(ctx, a.Drain, hangUp)()
	s := &seeker{Activities: a, in: in, token: uuid.NewString()}
	defer heartbeat(ctx, s.howFar)()
	end, ok := a.Listening.BeginSearch() // it waits most of its time: others may work in its place
	if !ok {
		return SeekReport{}, errTooManySearches
	}
	defer end()
	pause := newPause(time.Duration(in.Exits.Interval), time.Duration(in.Exits.MaxInterval))
	for wait := pause.draw(); ; {
		if !s.rest(patient, wait) {
			return SeekReport{}, context.Cause(patient)
		}
		sought, err := retried(ctx, logOf(a.Logger, in.JobID, in.Number), func(ctx context.Context) (postgres.Sought, error) {
			return a.Store.SoughtAttempt(ctx, in.JobID, in.Number)
		})
		if err != nil || sought.State != onejob.AttemptUnknown {
			return SeekReport{}, TemporalError(err)
		}
		if err := s.canDoWhatWasPromised(sought); err != nil {
			return SeekReport{}, err
		}
		answer, asked := s.ask(ctx, sought)
		if !asked {
			return SeekReport{Exhausted: true}, nil
		}
		if known, err := s.take(ctx, sought, answer); known || err != nil {
			return SeekReport{}, TemporalError(err)
		}
		wait = max(pause.draw(), answer.RetryAfter)
	}
}

// seeker is one run of SeekOutcome.
type seeker struct {
	*Activities
	in    SeekInput
	token string
	told  atomic.Pointer[SeekProgress]
}

// SeekProgress is what a search shows in Temporal's heartbeat details.
type SeekProgress struct {
	Asked int           `json:"asked"`          // look-ups and re-asks of this run of the activity
	Last  onejob.Reason `json:"last,omitempty"` // what the provider said last
	Next  time.Time     `json:"next"`           // when it is asked again
}

func (s *seeker) howFar() []any {
	if p := s.told.Load(); p != nil {
		return []any{*p}
	}
	return nil
}

// rest waits until the next question. It returns false if ctx ended.
func (s *seeker) rest(ctx context.Context, wait time.Duration) bool {
	progress := SeekProgress{}
	if p := s.told.Load(); p != nil {
		progress = *p
	}
	progress.Next = time.Now().Add(wait).UTC()
	s.told.Store(&progress)
	return rest(ctx, wait)
}

// canDoWhatWasPromised returns an error, after which another worker goes on, if this one's
// configuration lacks the way out by which the search began.
func (s *seeker) canDoWhatWasPromised(sought postgres.Sought) error {
	p, ok := s.Providers.Get(sought.Provider)
	looker, _ := lookUpper(p)
	again, _ := reAsker(p)
	if !ok || s.in.Exits.LookUp && looker == nil || s.in.Exits.ReAsk && !s.in.Exits.LookUp && again == nil {
		return fmt.Errorf("this worker's onejob.yaml has no way to ask provider %q: another one goes on", sought.Provider)
	}
	if _, ok := s.Contracts[sought.Kind]; !ok && sought.Contract != "" {
		return fmt.Errorf("kind %q: %w", sought.Kind, ErrNoContract)
	}
	return nil
}

// ask asks the provider once. It returns false if there is no way to.
func (s *seeker) ask(ctx context.Context, sought postgres.Sought) (answer provider.Answer, asked bool) {
	p, _ := s.Providers.Get(sought.Provider)
	q := question(p, s.in.JobID, sought)
	if looker, policy := lookUpper(p); policy != nil && looker.CanLookUp(q) {
		answer, asked = s.lookUp(ctx, looker, q), true
	}
	if asked && answer.Reason != onejob.ReasonNotFound || s.in.Listening {
		return answer, asked
	}
	if again, ok := s.askAgain(ctx, p, sought); ok {
		return again, true
	}
	return answer, asked
}

// askAgain sends what was sent, under the same key. It returns false if it may not.
func (s *seeker) askAgain(ctx context.Context, p provider.Provider, sought postgres.Sought) (answer provider.Answer, asked bool) {
	again, policy := reAsker(p)
	if policy == nil || !mayReAsk(p, sought) {
		return answer, false
	}
	body, err := s.Store.CountReAskIfUnknown(ctx, s.in.JobID, s.in.Number, policy.Window, policy.Most)
	if body == nil {
		return provider.Answer{Certainty: provider.Unknown}, err != nil // it may still be possible later
	}
	asked = true
	defer s.recoverAdapter(s.in.JobID, s.in.Number, &answer)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.in.ListenFor))
	defer cancel()
	s.Logger.Info("the provider is asked again, under the same key", "job_id", s.in.JobID, "attempt", s.in.Number, "provider", p.Name, "re_ask", sought.ReAsks+1)
	return again.ReAsk(ctx, provider.Call{
		JobID: s.in.JobID, Attempt: s.in.Number, Kind: sought.Kind, Body: body, IdempotencyKey: idempotencyKey(s.in.JobID, s.in.Number),
		CallbackURL: s.callbackURL(p, s.in.JobID, s.in.Number),
	}).Checked(s.Catalog.Limits), asked
}

// take records what the provider said. It returns whether that is the outcome.
func (s *seeker) take(ctx context.Context, sought postgres.Sought, answer provider.Answer) (known bool, err error) {
	progress := *s.told.Load()
	progress.Asked, progress.Last = progress.Asked+1, answer.Reason
	s.told.Store(&progress)
	if !final(answer) {
		return false, s.keepReference(ctx, sought, answer)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	p, _ := s.Providers.Get(sought.Provider)
	if answer, err = JudgeOf(s.Options).Judged(ctx, s.in.JobID, sought, p, answer); err != nil {
		return false, err
	}
	recorded, err := s.recorder(sought).writeOutcome(ctx, answer)
	s.observe(ctx, sought.Provider, sought.Kind, recorded)
	return true, err
}

// lastWord is what recording an outcome gets when the search itself is over: an answer to a
// re-ask was paid for.
const lastWord = 30 * time.Second

func (s *seeker) recorder(sought postgres.Sought) recorder {
	return recorder{s.Activities, s.in.JobID, s.in.Number, sought.Provider, s.token, sought.InputBytes}
}

// keepReference keeps a name for the call that the provider gave only now.
func (s *seeker) keepReference(ctx context.Context, sought postgres.Sought, answer provider.Answer) error {
	if answer.Reference == "" || answer.Reference == sought.Reference {
		return nil
	}
	_, err := s.Store.MarkUnknownIfLive(ctx, s.in.JobID, s.in.Number,
		postgres.Silence{Reason: onejob.ReasonInProgress, Detail: answer.Detail, Reference: answer.Reference})
	return err
}

var errTooManySearches = errors.New("this worker has as many searches as it may: another one goes on, or this one later")

var errWorkerStops = errors.New("the worker stops: another one goes on")

// untilWorkerStops returns a context that ends when the activity's worker stops.
func untilWorkerStops(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := goUntilStopped(func(stopped <-chan struct{}) {
		select {
		case <-activity.GetWorkerStopChannel(ctx):
			cancel(errWorkerStops)
		case <-stopped:
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}
