package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// modelTime bounds the random histories. Those that do not fit in are not run.
const modelTime = 6 * time.Second

// model is a job as the design describes it, without a database.
type model struct {
	status    onejob.Status
	version   int
	winner    int
	requested string
	attempts  []modelAttempt
	decisions map[string]modelDecision
	discards  map[int]onejob.Reason
}

type modelAttempt struct {
	lane       int
	state      onejob.AttemptState
	version    int
	token      string // of its execution
	recordedBy string
	decided    bool
	discarded  bool
}

// modelDecision is what a token stands for. What an action has not is left empty.
type modelDecision struct {
	action   onejob.DecisionAction
	attempt  int
	outcome  onejob.AttemptState
	provider string
}

// decided says whether the token stands for a decision. Another one is refused.
func (m *model) decided(token string, d modelDecision) (repeated bool, refusal error) {
	before, repeated := m.decisions[token]
	if d.attempt == 0 {
		d.attempt = before.attempt // the unresolved one at that time
	}
	if repeated && d != before {
		return true, onejob.ErrConflict
	}
	return repeated, nil
}

func (a modelAttempt) unresolved() bool {
	return !a.state.Final() || a.state == onejob.AttemptSucceeded && !a.decided
}

func (m *model) anyUnresolved() bool { return slices.ContainsFunc(m.attempts, modelAttempt.unresolved) }

func (m *model) laneTaken(lane int) bool {
	return slices.ContainsFunc(m.attempts, func(a modelAttempt) bool { return a.lane == lane && a.unresolved() })
}

// follow makes an open job unknown exactly while one of its attempts is.
func (m *model) follow() {
	if m.status != onejob.StatusRunning && m.status != onejob.StatusUnknown {
		return
	}
	m.status = onejob.StatusRunning
	if slices.ContainsFunc(m.attempts, func(a modelAttempt) bool { return a.state == onejob.AttemptUnknown }) {
		m.status = onejob.StatusUnknown
	}
}

// start returns whether the execution may call. Provider is the one that it starts on.
func (m *model) start(number, lane int, token, provider string) bool {
	if number <= len(m.attempts) {
		a := m.attempts[number-1]
		return a.token == token && a.state == onejob.AttemptStarting
	}
	open := m.status == onejob.StatusAccepted || m.status == onejob.StatusRunning || m.status == onejob.StatusUnknown && lane == 1
	if !open || m.laneTaken(lane) || m.requested != "" && m.requested != provider {
		return false
	}
	if m.status == onejob.StatusAccepted {
		m.status = onejob.StatusRunning
	}
	m.requested = ""
	m.attempts = append(m.attempts, modelAttempt{lane: lane, state: onejob.AttemptStarting, version: m.version, token: token})
	return true
}

// end gives a live attempt its outcome.
func (m *model) end(number int, state onejob.AttemptState, by string) {
	a := &m.attempts[number-1]
	a.state, a.recordedBy = state, by
	if state == onejob.AttemptSucceeded && (m.status.Closed() || m.version != a.version) {
		m.discard(number, onejob.ReasonJobClosed)
	}
	m.follow()
}

// discard keeps a trace of a result that cannot win.
func (m *model) discard(number int, why onejob.Reason) {
	a := &m.attempts[number-1]
	if m.winner != 0 && m.winner != number {
		why = onejob.ReasonSlotTaken
	}
	if _, known := m.discards[number]; !known {
		m.discards[number] = why
	}
	if a.state == onejob.AttemptSucceeded {
		a.decided = true
	}
	a.discarded = true
}

// record returns whether the outcome came late.
func (m *model) record(number int, state onejob.AttemptState, by string) (late bool) {
	a := &m.attempts[number-1]
	switch {
	case !a.state.Final():
		m.end(number, state, by)
		return false
	case a.recordedBy == by:
		return false
	}
	if state == onejob.AttemptSucceeded {
		kept := *a
		m.discard(number, onejob.ReasonLateResult)
		if kept.state == onejob.AttemptSucceeded {
			*a = kept
		}
	}
	return true
}

func (m *model) complete(number int) (won bool) {
	a := &m.attempts[number-1]
	if m.winner == number {
		return true
	}
	if a.state != onejob.AttemptSucceeded || a.decided {
		return false
	}
	if open := m.status == onejob.StatusRunning || m.status == onejob.StatusUnknown; !open || a.version != m.version {
		m.discard(number, onejob.ReasonJobClosed)
		return false
	}
	a.decided = true
	m.status, m.winner, m.requested = onejob.StatusSucceeded, number, ""
	m.version++
	for i, other := range m.attempts {
		if !other.state.Final() {
			m.end(i+1, onejob.AttemptCancelled, fmt.Sprintf("winner/%d", number))
		}
	}
	return true
}

func (m *model) fail(version int) {
	if m.status == onejob.StatusRunning && m.version == version && m.requested == "" && !m.anyUnresolved() {
		m.status = onejob.StatusFailed
	}
}

func (m *model) adopt(listening []int, fence int) {
	if fence == len(m.attempts)+1 {
		m.attempts = append(m.attempts, modelAttempt{state: onejob.AttemptFailed, version: m.version, recordedBy: "fence"})
	}
	for i := range m.attempts {
		a := &m.attempts[i]
		if (a.state == onejob.AttemptStarting || a.state == onejob.AttemptRunning) && !slices.Contains(listening, i+1) {
			a.state = onejob.AttemptUnknown
		}
	}
	m.follow()
}

// request returns the refusal, or nil.
func (m *model) request(provider, token string) error {
	d := modelDecision{action: onejob.DecideStartAttempt, provider: provider}
	if repeated, refusal := m.decided(token, d); repeated {
		return refusal
	}
	switch {
	case m.status == onejob.StatusSucceeded || m.status == onejob.StatusCancelled:
		return onejob.ErrJobClosed
	case m.anyUnresolved() || m.status == onejob.StatusAccepted || m.requested != "":
		return onejob.ErrAttemptUnresolved
	}
	if m.status == onejob.StatusFailed {
		m.version++
	}
	m.status, m.requested, m.decisions[token] = onejob.StatusRunning, provider, d
	return nil
}

func (m *model) resolve(number int, state onejob.AttemptState, token string) error {
	d := modelDecision{action: onejob.DecideCancelAttempt, attempt: number}
	if state != onejob.AttemptCancelled {
		d.action, d.outcome = onejob.DecideResolveAttempt, state
	}
	if repeated, refusal := m.decided(token, d); repeated {
		return refusal
	}
	if number == 0 {
		number = 1 + slices.IndexFunc(m.attempts, modelAttempt.unresolved)
	}
	if number == 0 || m.attempts[number-1].state.Final() {
		return onejob.ErrNothingToResolve
	}
	m.end(number, state, token)
	d.attempt = number
	m.decisions[token] = d
	return nil
}

func (m *model) cancel(token string) error {
	d := modelDecision{action: onejob.DecideCancelJob}
	if repeated, refusal := m.decided(token, d); repeated {
		return refusal
	}
	if m.status.Closed() {
		return onejob.ErrJobClosed
	}
	for i, a := range m.attempts {
		switch {
		case !a.state.Final():
			m.end(i+1, onejob.AttemptCancelled, token)
		case a.unresolved():
			m.discard(i+1, onejob.ReasonJobClosed)
		}
	}
	m.status, m.requested, m.decisions[token] = onejob.StatusCancelled, "", d
	m.version++
	return nil
}

// play is one random history: the job in the database and the one in the model.
type play struct {
	rig
	t      *testing.T
	job    onejob.Job
	model  model
	tokens []string // of executions and decisions, so that some are used again
}

func TestStoreDoesWhatTheDesignSays(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, withParameter(t, pgtest.URL(t), "synchronous_commit", "off"))
	end := time.Now().Add(modelTime)
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) {
			return
		}
		p := &play{rig: r, t: t, job: r.accepted(t, hedged), tokens: []string{uuid.NewString()},
			model: model{status: onejob.StatusAccepted, decisions: map[string]modelDecision{}, discards: map[int]onejob.Reason{}}}
		rt.Repeat(p.actions())
	})
	r.mustBeConsistent(t)
}

// token draws a token that was used before, or a new one.
func (p *play) token(rt *rapid.T) string {
	if rapid.IntRange(0, 2).Draw(rt, "new token") > 0 {
		p.tokens = append(p.tokens, uuid.NewString())
		return p.tokens[len(p.tokens)-1]
	}
	return rapid.SampledFrom(p.tokens).Draw(rt, "token")
}

// number draws the number of an attempt that exists.
func (p *play) number(rt *rapid.T) int {
	if len(p.model.attempts) == 0 {
		rt.Skip("there is no attempt")
	}
	return rapid.IntRange(1, len(p.model.attempts)).Draw(rt, "number")
}

func anyProvider(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"primary", "second"}).Draw(rt, "provider")
}

func agree(rt *rapid.T, what string, got, want any, err error) {
	if err != nil || got != want {
		rt.Fatalf("%s: the store says %v (%v), the model %v", what, got, err, want)
	}
}

func agreeOn(rt *rapid.T, got, want error) {
	if !errors.Is(got, want) {
		rt.Fatalf("the store says %v, the model %v", got, want)
	}
}

func (p *play) who(rt *rapid.T) postgres.Decision {
	return postgres.Decision{By: "ops", Reason: "why", Token: p.token(rt)}
}

func (p *play) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": p.compare, "start": p.start, "start again": p.start, "record again": p.record, "running": p.running, "silence": p.silence, "record": p.record, "complete": p.complete,
		"fail": p.fail, "adopt": p.adopt, "request": p.request, "cancel attempt": p.cancelAttempt, "resolve": p.resolve, "cancel": p.cancel,
	}
}

func (p *play) start(rt *rapid.T) {
	number := rapid.IntRange(max(1, len(p.model.attempts)), len(p.model.attempts)+1).Draw(rt, "number")
	lane, token, name := rapid.IntRange(0, 1).Draw(rt, "lane"), p.token(rt), anyProvider(rt)
	started, err := p.store.StartAttemptIfNoneLives(p.t.Context(), postgres.Start{
		JobID: p.job.ID, WorkflowID: p.job.WorkflowID, Number: number, Lane: lane, Provider: name, Execution: token})
	agree(rt, "start", started.Mine, p.model.start(number, lane, token, name), err)
}

func (p *play) running(rt *rapid.T) {
	number := p.number(rt)
	if _, err := p.store.MarkRunningIfStarting(p.t.Context(), p.job.ID, number, "ref"); err != nil {
		rt.Fatal(err)
	}
	if a := &p.model.attempts[number-1]; a.state == onejob.AttemptStarting {
		a.state = onejob.AttemptRunning
	}
}

func (p *play) silence(rt *rapid.T) {
	number := p.number(rt)
	got, err := p.store.MarkUnknownIfLive(p.t.Context(), p.job.ID, number, postgres.Silence{Reason: onejob.ReasonTimeout})
	a := &p.model.attempts[number-1]
	if !a.state.Final() {
		a.state = onejob.AttemptUnknown
	}
	p.model.follow()
	agree(rt, "silence", got.Attempt.State, a.state, err)
}

func (p *play) record(rt *rapid.T) {
	number := p.number(rt)
	o := postgres.Outcome{State: onejob.AttemptFailed, Reason: onejob.ReasonRejected, RecordedBy: p.token(rt)}
	if rapid.Bool().Draw(rt, "success") {
		o.State, o.Reason, o.Result = onejob.AttemptSucceeded, "", json.RawMessage(`{"n": 1}`)
	}
	recorded, err := p.store.RecordOutcomeIfLive(p.t.Context(), p.job.ID, number, o)
	agree(rt, "late", recorded.Late, p.model.record(number, o.State, o.RecordedBy), err)
}

func (p *play) complete(rt *rapid.T) {
	number := p.number(rt)
	c, err := p.store.CompleteJobIfOpen(p.t.Context(), p.job.ID, number)
	agree(rt, "won", c.Won, p.model.complete(number), err)
}

func (p *play) fail(rt *rapid.T) {
	version := rapid.IntRange(max(0, p.model.version-1), p.model.version).Draw(rt, "version")
	progress, err := p.store.FailJobIfNothingLives(p.t.Context(), p.job.ID, version)
	p.model.fail(version)
	agree(rt, "fail", progress.Status, p.model.status, err)
}

func (p *play) adopt(rt *rapid.T) {
	q := postgres.Adoption{JobID: p.job.ID, WorkflowID: p.job.WorkflowID}
	fence := 0
	if rapid.Bool().Draw(rt, "fence") {
		fence = rapid.IntRange(max(1, len(p.model.attempts)), len(p.model.attempts)+1).Draw(rt, "number")
		q.Fence = &postgres.Fence{Number: fence, Provider: "primary"}
	}
	if rapid.Bool().Draw(rt, "listening") {
		q.Listening = []int{len(p.model.attempts)}
	}
	progress, err := p.store.AdoptAttempts(p.t.Context(), q)
	p.model.adopt(q.Listening, fence)
	agree(rt, "adopt", progress.Status, p.model.status, err)
}

func (p *play) request(rt *rapid.T) {
	who, name := p.who(rt), anyProvider(rt)
	_, err := p.store.RequestAttemptIfNoneLives(p.t.Context(), p.job.ID, name, who)
	agreeOn(rt, err, p.model.request(name, who.Token))
	p.drop(who, err)
}

// drop forgets the token of a refused decision: told again, it would be refused again. One that
// stands for another decision goes on to do so.
func (p *play) drop(who postgres.Decision, refusal error) {
	if refusal == nil || errors.Is(refusal, onejob.ErrConflict) {
		return
	}
	p.tokens = slices.DeleteFunc(p.tokens, func(token string) bool { return token == who.Token })
	if len(p.tokens) == 0 {
		p.tokens = []string{uuid.NewString()}
	}
}

// target draws an attempt, or 0 for the unresolved one.
func (p *play) target(rt *rapid.T) int {
	return rapid.IntRange(0, len(p.model.attempts)).Draw(rt, "target")
}

func (p *play) cancelAttempt(rt *rapid.T) {
	who, number := p.who(rt), p.target(rt)
	_, err := p.store.CancelAttemptIfLive(p.t.Context(), p.job.ID, number, who)
	agreeOn(rt, err, p.model.resolve(number, onejob.AttemptCancelled, who.Token))
	p.drop(who, err)
}

func (p *play) resolve(rt *rapid.T) {
	who, number := p.who(rt), p.target(rt)
	as, result := onejob.AttemptFailed, json.RawMessage(nil)
	if rapid.Bool().Draw(rt, "success") {
		as, result = onejob.AttemptSucceeded, json.RawMessage(`2`)
	}
	_, err := p.store.ResolveAttemptIfLive(p.t.Context(), p.job.ID, number, as, result, who)
	agreeOn(rt, err, p.model.resolve(number, as, who.Token))
	p.drop(who, err)
}

func (p *play) cancel(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "seldom") > 0 {
		rt.Skip("most jobs are not cancelled")
	}
	who := p.who(rt)
	_, err := p.store.CancelJobIfOpen(p.t.Context(), p.job.ID, who)
	agreeOn(rt, err, p.model.cancel(who.Token))
	p.drop(who, err)
}

// compare compares every row with the model, after each step.
func (p *play) compare(rt *rapid.T) {
	var rows string
	err := p.hand.QueryRow(p.t.Context(), `
		SELECT format('%s %s %s %s %s', j.status, j.version, j.completed_by, j.requested_provider, (SELECT count(*) FROM decisions WHERE job_id = j.id AND refused IS NULL))
			|| coalesce((SELECT string_agg(format('; %s %s %s %s %s %s', number, lane, state, decided_at IS NOT NULL, discarded_at IS NOT NULL, d.reason), '' ORDER BY number)
				FROM attempts a LEFT JOIN discarded_results d ON d.attempt_id = a.id WHERE a.job_id = j.id), '')
		FROM jobs j WHERE j.id = $1`, p.job.ID).Scan(&rows)
	if want := p.model.String(); err != nil || rows != want {
		rt.Fatalf("the rows say  %s (%v)\nthe model says %s", rows, err, want)
	}
}

// String returns the model as compare reads the rows.
func (m *model) String() string {
	winner := ""
	if m.winner != 0 {
		winner = strconv.Itoa(m.winner)
	}
	text := fmt.Sprintf("%s %d %s %s %d", m.status, m.version, winner, m.requested, len(m.decisions))
	for i, a := range m.attempts {
		text += fmt.Sprintf("; %d %d %s %.1s %.1s %s", i+1, a.lane, a.state, strconv.FormatBool(a.decided), strconv.FormatBool(a.discarded), m.discards[i+1])
	}
	return text
}
