package postgres_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// Many at once do to one job whatever can be done to it. What each of them was told must be
// what the model says, in some order of the calls that fits their times.
func TestWhatEverybodyIsToldFitsOneHistory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const histories, clients, callsEach = 12, 6, 6
	for seed := range uint64(histories) {
		h := &history{rig: r, t: t, job: newJob(t, hedged), began: time.Now()}
		calls := make([]func(), clients)
		for i := range calls {
			draw := rand.New(rand.NewPCG(seed, uint64(i)))
			calls[i] = func() {
				for range callsEach {
					h.call(i, draw)
				}
			}
		}
		together(calls...)
		switch result := porcupine.CheckOperationsTimeout(linear, h.operations, time.Minute); result {
		case porcupine.Ok:
		default:
			t.Errorf("seed %d: %s: no order of these calls explains what they were told: %v", seed, result, h.operations)
		}
	}
	r.mustBeConsistent(t)
}

// history is what happened to one job.
type history struct {
	rig
	t        *testing.T
	job      onejob.Job
	began    time.Time
	attempts atomic.Int32 // at least so many were started

	mu         sync.Mutex
	operations []porcupine.Operation
}

// request is a call, with all that the model has to know of it.
type call struct {
	verb     string
	number   int
	lane     int
	provider string
	token    string
	state    onejob.AttemptState
}

func (c call) String() string {
	return fmt.Sprintf("%s %d %s%s", c.verb, c.number, c.provider, c.state)
}

var verbs = []string{"submit", "start", "start", "start", "silence", "record", "record", "callback", "complete", "complete", "request", "cancel attempt", "resolve"}

// call makes one random call and keeps what it was told.
func (h *history) call(client int, draw *rand.Rand) {
	c := call{
		verb: verbs[draw.IntN(len(verbs))], lane: draw.IntN(2), provider: []string{"primary", "second"}[draw.IntN(2)], token: uuid.NewString(),
		state: []onejob.AttemptState{onejob.AttemptSucceeded, onejob.AttemptFailed}[draw.IntN(2)],
	}
	if len(h.told()) == 0 {
		c.verb = "submit"
	}
	started := int(h.attempts.Load())
	c.number = 1 + draw.IntN(started+1)
	if c.verb == "start" {
		c.number = started + 1
	}
	from := time.Since(h.began)
	told := h.do(c)
	to := time.Since(h.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: c, Call: from.Nanoseconds(), Output: told, Return: to.Nanoseconds()})
}

func (h *history) told() []porcupine.Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.operations
}

// do makes the call, and returns what it was told.
func (h *history) do(c call) string {
	ctx, id := h.t.Context(), h.job.ID
	who := postgres.Decision{By: "ops", Reason: "why", Token: c.token}
	outcome := postgres.Outcome{State: c.state, RecordedBy: c.token}
	if c.state == onejob.AttemptSucceeded {
		outcome.Result = []byte(`1`)
	} else {
		outcome.Reason = onejob.ReasonRejected
	}
	switch c.verb {
	case "submit":
		registered, err := h.store.InsertJobs(ctx, h.job)
		if err != nil {
			return err.Error()
		}
		return told(registered[0].Err, registered[0].Created)
	case "start":
		started, err := h.store.StartAttemptIfNoneLives(ctx, postgres.Start{
			JobID: id, WorkflowID: h.job.WorkflowID, Number: c.number, Lane: c.lane, Provider: c.provider, Execution: c.token})
		if started.Mine {
			h.raise(c.number)
		}
		return told(err, started.Mine)
	case "silence":
		recorded, err := h.store.MarkUnknownIfLive(ctx, id, c.number, postgres.Silence{Reason: onejob.ReasonTimeout})
		return told(err, recorded.Attempt.State)
	case "record":
		recorded, err := h.store.RecordOutcomeIfLive(ctx, id, c.number, outcome)
		return told(err, recorded.Late)
	case "callback":
		// Whose attempt it is the provider knows.
		heard, err := h.store.HearCallbackOnce(ctx, postgres.Callback{Provider: h.providerOf(c.number), WebhookID: c.token, JobID: id, Attempt: c.number, Outcome: &outcome})
		return told(err, heard.Effect == postgres.CallbackLate)
	case "complete":
		completion, err := h.store.CompleteJobIfOpen(ctx, id, c.number)
		return told(err, completion.Won)
	case "request":
		_, err := h.store.RequestAttemptIfNoneLives(ctx, id, c.provider, who)
		return told(err, "done")
	case "cancel attempt":
		_, err := h.store.CancelAttemptIfLive(ctx, id, c.number, who)
		return told(err, "done")
	default:
		_, err := h.store.ResolveAttemptIfLive(ctx, id, c.number, c.state, outcome.Result, who)
		return told(err, "done")
	}
}

func (h *history) raise(number int) {
	for {
		known := h.attempts.Load()
		if int(known) >= number || h.attempts.CompareAndSwap(known, int32(number)) {
			return
		}
	}
}

func (h *history) providerOf(number int) string {
	attempts, err := h.store.Attempts(h.t.Context(), h.job.ID)
	if err != nil {
		h.t.Error(err)
	}
	for _, a := range attempts {
		if a.Number == number {
			return a.Provider
		}
	}
	return "primary"
}

// told is the answer to a call: the code of its refusal, or what it says.
func told(err error, answer any) string {
	if err != nil {
		if code := onejob.CodeOf(err); code != "" {
			return string(code)
		}
		return err.Error()
	}
	return fmt.Sprint(answer)
}

// linear is the model of one job, to which one call at a time is made.
var linear = porcupine.Model{
	Init: func() any { return (*model)(nil) },
	Step: func(state, input, output any) (bool, any) {
		next := state.(*model).copy()
		answer := next.take(input.(call))
		return answer == output, next
	},
	Equal: func(a, b any) bool { return fmt.Sprint(a.(*model).whole()) == fmt.Sprint(b.(*model).whole()) },
}

// newlySubmitted is the model of a job that was just inserted.
func newlySubmitted() *model {
	return &model{status: onejob.StatusAccepted, decisions: map[string]modelDecision{}, discards: map[int]onejob.Reason{}}
}

func (m *model) copy() *model {
	if m == nil {
		return &model{}
	}
	c := *m
	c.attempts, c.decisions, c.discards = slices.Clone(m.attempts), maps.Clone(m.decisions), maps.Clone(m.discards)
	return &c
}

// whole is all of the model that decides what later calls are told.
func (m *model) whole() any {
	if m == nil {
		return "no job"
	}
	return *m
}

// take makes the call to the model and returns what it is told.
func (m *model) take(c call) string {
	if c.verb == "submit" {
		// The same job, by an earlier try of the same caller: it is created for each of them.
		if m.status == "" {
			*m = *newlySubmitted()
		}
		return told(nil, true)
	}
	if m.status == "" {
		return string(onejob.CodeNotFound)
	}
	none := c.number > len(m.attempts)
	switch c.verb {
	case "start":
		return told(nil, m.start(c.number, c.lane, c.token, c.provider))
	case "request":
		return told(m.request(c.provider, c.token), "done")
	case "cancel attempt", "resolve":
		state := c.state
		if c.verb == "cancel attempt" {
			state = onejob.AttemptCancelled
		}
		if none {
			return string(onejob.CodeNotFound)
		}
		return told(m.resolve(c.number, state, c.token), "done")
	}
	if none {
		return string(onejob.CodeNotFound)
	}
	switch c.verb {
	case "silence":
		a := &m.attempts[c.number-1]
		if !a.state.Final() {
			a.state = onejob.AttemptUnknown
		}
		m.follow()
		return told(nil, a.state)
	case "complete":
		return told(nil, m.complete(c.number))
	}
	return told(nil, m.record(c.number, c.state, c.token))
}
