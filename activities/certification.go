package activities

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// Tokens says how a provider's model counts, and how many tokens its context has. Ok false: it is
// not known.
type Tokens func(p provider.Provider) (counter contract.Counter, window int, ok bool)

// CertificationInput is the run that is asked for.
type CertificationInput struct {
	RunID          string `json:"run_id"` // a UUID, of whoever asks
	ContractSHA256 string `json:"contract_sha256"`
	Provider       string `json:"provider"`
	Primary        string `json:"primary,omitempty"` // whose answers are compared with; empty: nobody's
	RequestedBy    string `json:"requested_by"`
}

// CertificationPlan is what a run has to do.
type CertificationPlan struct {
	Contract    string              `json:"contract"` // kind
	Preparation certify.Preparation `json:"preparation"`
	Calls       []PlannedCall       `json:"calls"`   // those that have no outcome yet
	Limited     bool                `json:"limited"` // the provider has a queue of its own
	AtOnce      int                 `json:"at_once"` // calls
	ListenFor   onejob.Duration     `json:"listen_for"`
}

// PlannedCall is a call to make.
type PlannedCall struct {
	postgres.CertificationCall
	Number int `json:"number"` // within the run, from 1
	Spare  int `json:"spare"`  // how many runs of its case may stay without an answer
	OutOf  int `json:"out_of"` // calls of the run
}

// certificationsAtOnce is how many calls of a run are under way at once.
const certificationsAtOnce = 4

// subject is what a run of the provider needs to know of it.
func (a *Activities) subject(name string) (provider.Provider, certify.Subject, error) {
	p, ok := a.Providers.Get(name)
	if !ok {
		return p, certify.Subject{}, onejob.Errorf(onejob.CodeInvalidRequest, "provider %q is not in this worker's onejob.yaml: name one of %v", name, a.Providers.Names())
	}
	prompter, ok := p.Adapter.(provider.Prompter)
	if !ok {
		return p, certify.Subject{}, onejob.Errorf(onejob.CodeInvalidRequest, "provider %q cannot be asked by a prompt: its adapter has no prompts", name)
	}
	s := certify.Subject{Provider: name, Model: p.Model, Prompter: prompter, Timeout: p.Timeout}
	if a.Tokens != nil {
		if counter, window, ok := a.Tokens(p); ok {
			s.Counter, s.Window = counter, window
		}
	}
	return p, s, nil
}

// contracts keeps the contracts that were read last, by identity.
type contracts struct {
	mu     sync.Mutex
	byHash map[string]*contract.Contract
}

const mostContracts = 16

// contractOf reads the stored contract.
func (a *Activities) contractOf(ctx context.Context, sha string) (*contract.Contract, error) {
	a.contracts.mu.Lock()
	c, ok := a.contracts.byHash[sha]
	a.contracts.mu.Unlock()
	if ok {
		return c, nil
	}
	text, err := a.Store.ContractText(ctx, sha)
	if err != nil {
		return nil, err
	}
	c, err = certify.Bundle{File: text.File, Files: text.Files}.Contract()
	if err != nil {
		return nil, err
	}
	if c.SHA256 != sha {
		return nil, onejob.Errorf(onejob.CodeInvalidRequest, "contract %.12s is %.12s to this worker: it was stored by another version of onejob, verify the file again", sha, c.SHA256)
	}
	a.contracts.mu.Lock()
	defer a.contracts.mu.Unlock()
	if a.contracts.byHash == nil || len(a.contracts.byHash) >= mostContracts {
		a.contracts.byHash = map[string]*contract.Contract{}
	}
	a.contracts.byHash[sha] = c
	return c, nil
}

// certificationError is TemporalError for a run: what a person must mend is said at once.
func certificationError(err error) error {
	return temporalError(err, func(code onejob.Code) bool {
		return code == onejob.CodeServerUnreachable || code == onejob.CodeInternal
	})
}

// BeginCertification renders the contract's prompts for the provider, sets aside what the calls
// may come to and returns what there is to do. It may be repeated. It fails with InvalidRequest,
// NotFound, Misconfigured and BudgetExceeded before a call is made.
func (a *Activities) BeginCertification(ctx context.Context, in CertificationInput) (CertificationPlan, error) {
	defer heartbeat(ctx, nothingToTell)()
	plan, err := a.beginCertification(ctx, in)
	return plan, certificationError(err)
}

func (a *Activities) beginCertification(ctx context.Context, in CertificationInput) (plan CertificationPlan, err error) {
	c, err := a.contractOf(ctx, in.ContractSHA256)
	if err != nil {
		return plan, err
	}
	p, s, err := a.subject(in.Provider)
	if err != nil {
		return plan, err
	}
	plan = CertificationPlan{Contract: c.Kind, Limited: p.Limits != provider.Limits{}, AtOnce: certificationsAtOnce, ListenFor: onejob.Duration(listenFor(c, p)), Calls: []PlannedCall{}}
	if plan.Preparation, err = certify.Prepare(ctx, c, s); err != nil {
		return plan, err
	}
	run := postgres.Certification{
		ID: in.RunID, Contract: c.Kind, ContractSHA256: c.SHA256, Provider: in.Provider, Model: p.Model, Adapter: s.Prompter.Version(), RequestedBy: in.RequestedBy,
	}
	var usages []json.RawMessage
	if plan.Preparation.Renders() {
		run.Calls, run.MustPass = plan.Preparation.Calls(), plan.Preparation.MustPass()
		if usages, err = reckoned(c, plan.Preparation); err != nil {
			return plan, err
		}
	}
	if run, err = a.Store.BeginCertificationOnce(ctx, run, usages); err != nil || run.Calls == 0 || run.State != postgres.CertificationRunning {
		return plan, err
	}
	rows, err := a.Store.CertificationCalls(ctx, in.RunID)
	if err != nil {
		return plan, err
	}
	plan.Calls = remaining(in.RunID, plan.Preparation, rows)
	return plan, nil
}

// listenFor is how long an answer is waited for: well beyond what a job would wait for silence,
// and no longer than a job would listen.
func listenFor(c *contract.Contract, p provider.Provider) time.Duration {
	const patience = 3
	return min(max(p.ListenFor, p.Timeout), patience*max(p.Timeout, c.Ceilings.Latency))
}

// reckoned is the most that each call is reckoned to use: its prompt and the answer's allowance.
func reckoned(c *contract.Contract, p certify.Preparation) (usages []json.RawMessage, err error) {
	for _, q := range p.Questions {
		k, _ := certify.CaseOf(c, q.Case)
		u := provider.Usage{InputTokens: int64(q.Most), OutputTokens: int64(c.Parameters.MaxTokens)}
		if q.Most == 0 {
			u.InputTokens = onejob.TokensIn(len(k.Input))
		}
		usage, err := u.JSON()
		if err != nil {
			return nil, err
		}
		for range q.Runs {
			usages = append(usages, usage)
		}
	}
	return usages, nil
}

// remaining returns the calls that have no outcome, a further try of what may be tried again
// aside: a new run of the workflow goes on where the last one ended.
func remaining(runID string, p certify.Preparation, rows []postgres.CallRow) []PlannedCall {
	type asked struct {
		name   string
		repeat int
	}
	decided := map[asked]bool{}
	for _, row := range rows {
		if row.State != postgres.CallCalling {
			decided[asked{row.Case, row.Repeat}] = true
		}
	}
	calls, number := []PlannedCall{}, 0
	for _, q := range p.Questions {
		for repeat := 1; repeat <= q.Runs; repeat++ {
			number++
			if !decided[asked{q.Case, repeat}] {
				calls = append(calls, PlannedCall{
					CertificationCall: postgres.CertificationCall{RunID: runID, Case: q.Case, Repeat: repeat, Try: 1},
					Number:            number, Spare: q.Runs - q.MustPass, OutOf: p.Calls(),
				})
			}
		}
	}
	return calls
}

// CertificationCallInput is the call to make.
type CertificationCallInput struct {
	ContractSHA256 string           `json:"contract_sha256"`
	Provider       string           `json:"provider"`
	Question       certify.Question `json:"question"`
	Call           PlannedCall      `json:"call"`
	ListenFor      onejob.Duration  `json:"listen_for"`
}

// CertificationCallReport says what became of a call.
type CertificationCallReport struct {
	State      postgres.CallState `json:"state"`
	Findings   int                `json:"findings"`
	Retryable  bool               `json:"retryable,omitempty"` // the provider may be asked again: it refused for a moment
	RetryAfter onejob.Duration    `json:"retry_after,omitempty"`
}

// CertificationCall makes one call of a run and records what became of it. The call's row is
// committed before: a call that has a row is never made again. It returns what the row says then.
func (a *Activities) CertificationCall(ctx context.Context, in CertificationCallInput) (CertificationCallReport, error) {
	defer heartbeat(ctx, nothingToTell)()
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer endAfterStop(ctx, a.Drain, end)()
	report, err := a.certificationCall(ctx, alive, in)
	return report, certificationError(err)
}

func (a *Activities) certificationCall(ctx, alive context.Context, in CertificationCallInput) (report CertificationCallReport, err error) {
	c, err := a.contractOf(ctx, in.ContractSHA256)
	if err != nil {
		return report, err
	}
	p, s, err := a.subject(in.Provider)
	if err != nil {
		return report, err
	}
	input, err := certify.Ask(c, s, in.Question.Case)
	if err != nil {
		return report, onejob.Errorf(onejob.CodeInvalidRequest, "case %q cannot be asked: %w", in.Question.Case, err)
	}
	mine, err := a.startCertificationCall(ctx, p, in)
	if err != nil || !mine {
		return a.awaitCertificationCall(ctx, in, err)
	}
	began := time.Now()
	answer := a.askForCertificate(ctx, alive, p, c.Kind, input, in)
	outcome, report, err := a.judged(alive, c, s, in.Question, answer, len(input), time.Since(began))
	if err != nil {
		return report, err
	}
	_, err = retried(alive, a.Logger.With("certification", in.Call.RunID, "call", in.Call.Number), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, a.Store.RecordCallIfOpen(ctx, in.Call.CertificationCall, outcome)
	})
	return report, err
}

// startCertificationCall asks Postgres for the permission to call. While the provider has as many
// calls under way as it may, it waits.
func (a *Activities) startCertificationCall(ctx context.Context, p provider.Provider, in CertificationCallInput) (mine bool, err error) {
	patient, release := untilWorkerStops(ctx)
	defer release()
	start := postgres.CallStart{
		CertificationCall: in.Call.CertificationCall, Execution: uuid.NewString(), ListenFor: time.Duration(in.ListenFor),
		Provider: in.Provider, MostAtOnce: p.Limits.Concurrent,
	}
	for pause := newPause(firstBusyPause, longestBusyPause); ; {
		type started struct{ mine, busy bool }
		got, err := retriedWhile(patient, a.Logger, func(error) bool { return true }, func(ctx context.Context) (started, error) {
			mine, busy, err := a.Store.StartCallIfNew(ctx, start)
			return started{mine, busy}, err
		})
		if err != nil || !got.busy {
			return got.mine, err
		}
		if !pause.wait(patient) {
			return false, context.Cause(patient)
		}
	}
}

// awaitCertificationCall returns what became of a call that another execution makes or made.
func (a *Activities) awaitCertificationCall(ctx context.Context, in CertificationCallInput, err error) (report CertificationCallReport, _ error) {
	for pause := newPause(firstBusyPause, longestBusyPause); err == nil; {
		var rows []postgres.CallRow
		if rows, err = a.Store.CertificationCalls(ctx, in.Call.RunID); err != nil {
			break
		}
		for _, row := range rows {
			if row.CertificationCall == in.Call.CertificationCall {
				report.State = row.State
			}
		}
		if report.State != postgres.CallCalling {
			return report, nil
		}
		if !pause.wait(ctx) {
			return report, context.Cause(ctx)
		}
	}
	return report, err
}

// askForCertificate calls the provider as an attempt does, and waits for its answer.
func (a *Activities) askForCertificate(ctx, alive context.Context, p provider.Provider, kind string, input json.RawMessage, in CertificationCallInput) provider.Answer {
	if openFor := a.Circuits.barred(ctx, p.Name); openFor > 0 {
		return notCalled(openFor)
	}
	callCtx, hangUp := context.WithCancel(alive)
	defer hangUp()
	answers := make(chan provider.Answer, 1)
	call := provider.Call{
		JobID: in.Call.RunID, Attempt: in.Call.Number*mostTries + in.Call.Try, Kind: kind, Input: input,
		IdempotencyKey: certificationKey(in.Call.CertificationCall),
	}
	go func() { answers <- a.askOnce(callCtx, p, call) }()
	end := time.NewTimer(time.Duration(in.ListenFor))
	defer end.Stop()
	select {
	case answer := <-answers:
		return answer
	case <-end.C:
		return lastAnswer(answers, hangUp, 0, onejob.ReasonTimeout, fmt.Sprintf("no answer within %v", time.Duration(in.ListenFor)))
	case <-ctx.Done():
		return lastAnswer(answers, hangUp, finishAnswer, onejob.ReasonCancelled, "the certification was given up")
	case <-activity.GetWorkerStopChannel(ctx):
		return lastAnswer(answers, hangUp, a.Drain, onejob.ReasonWorkerShutdown, "the worker stopped")
	}
}

// mostTries bounds how often a call is tried that the provider refuses for a moment.
const mostTries = 3

// certificationKey is the provider-side key: one per call.
func certificationKey(c postgres.CertificationCall) string {
	return uuid.NewSHA1(uuid.MustParse(c.RunID), fmt.Appendf(nil, "%d/%d/%s", c.Repeat, c.Try, c.Case)).String()
}

// lastAnswer waits a last moment for the answer, then closes the connection.
func lastAnswer(answers <-chan provider.Answer, hangUp func(), moment time.Duration, why onejob.Reason, detail string) provider.Answer {
	for _, wait := range []time.Duration{moment, onceTimeout} {
		last := time.NewTimer(wait)
		select {
		case answer := <-answers:
			last.Stop()
			if answer.Certainty == provider.Unknown {
				answer.Reason, answer.Detail = why, detail
			}
			return answer
		case <-last.C:
			hangUp()
		}
	}
	return provider.Answer{Certainty: provider.Unknown, Reason: why, Detail: detail}
}

// askOnce calls the provider and follows a call that it took under a reference.
func (a *Activities) askOnce(ctx context.Context, p provider.Provider, call provider.Call) (answer provider.Answer) {
	defer a.recoverAdapter(call.JobID, call.Attempt, &answer)
	answer = p.Adapter.Call(ctx, call).Checked(a.Catalog.Limits)
	if answer.Certainty != provider.Accepted {
		return answer
	}
	q := provider.Question{JobID: call.JobID, Attempt: call.Attempt, IdempotencyKey: call.IdempotencyKey, Reference: answer.Reference}
	looker, policy := lookUpper(p)
	if policy == nil || !looker.CanLookUp(q) {
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonAwaitingAnswer, Detail: "the provider took the call and cannot be asked for its answer"}
	}
	began := time.Now()
	pause := newPause(policy.Interval, policy.MaxInterval)
	for wait := pause.draw(); rest(ctx, wait); {
		q.Age = time.Since(began)
		seen := a.lookUp(ctx, looker, q)
		if final(seen) {
			return seen
		}
		wait = max(pause.draw(), seen.RetryAfter)
	}
	return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonAwaitingAnswer, Detail: "the call was taken and not answered"}
}

// mostKeptReply bounds a reply that is kept.
const mostKeptReply = 256 << 10

// judged judges the answer, and says how it is recorded.
func (a *Activities) judged(ctx context.Context, c *contract.Contract, s certify.Subject, q certify.Question, answer provider.Answer, inputBytes int, latency time.Duration) (o postgres.CallOutcome, report CertificationCallReport, err error) {
	told := answer.Usage
	o = postgres.CallOutcome{State: postgres.CallUnknown, Reason: answer.Reason, Detail: answer.Detail, Latency: latency}
	if answer.Certainty == provider.Succeeded && told == nil {
		answer.Usage = provider.EstimateUsage(inputBytes, len(answer.Result))
	}
	if answer.Certainty != provider.Unknown {
		if o.Usage, err = answer.Usage.JSON(); err != nil {
			return o, report, err
		}
	}
	state := onejob.AttemptUnknown
	switch answer.Certainty {
	case provider.Succeeded:
		state = onejob.AttemptSucceeded
		price, err := a.priceOf(ctx, s, o.Usage)
		if err != nil {
			return o, report, err
		}
		answer.Usage = told
		j := certify.Judge(c, s, q, answer, latency, price)
		sum := sha256.Sum256(j.Reply)
		o.State, o.Reason, o.Detail, o.ReplySHA256, o.Verdict = postgres.CallAnswered, "", "", sum[:], j.Verdict.JSON()
		if c.KeepPayloads && len(j.Reply) <= mostKeptReply {
			o.Reply = j.Reply
		}
		report.Findings = len(j.Verdict.Findings)
	case provider.Failed:
		state = onejob.AttemptFailed
		o.State = postgres.CallFailed
		if v, ok := certify.JudgeFailure(answer); ok {
			o.Verdict, report.Findings = v.JSON(), len(v.Findings)
		}
		report.Retryable, report.RetryAfter = answer.Retryable, onejob.Duration(answer.RetryAfter)
	}
	a.Circuits.heard(ctx, s.Provider, onejob.Attempt{State: state, Reason: answer.Reason, Retryable: answer.Retryable})
	report.State = o.State
	return o, report, nil
}

func (a *Activities) priceOf(ctx context.Context, s certify.Subject, usage json.RawMessage) (certify.Priced, error) {
	return retried(ctx, a.Logger, func(ctx context.Context) (certify.Priced, error) {
		cost, currency, err := a.Store.CallCost(ctx, s.Provider, s.Model, usage)
		return certify.Priced{Cost: cost, Currency: currency}, err
	})
}

// FenceCertificationCall closes a call whose execution was lost: it is not made again.
func (a *Activities) FenceCertificationCall(ctx context.Context, call postgres.CertificationCall) (postgres.CallState, error) {
	state, err := a.Store.FenceCall(ctx, call)
	return state, certificationError(err)
}

// CertificationFinish is how a run is to end.
type CertificationFinish struct {
	CertificationInput
	Preparation certify.Preparation `json:"preparation"`
	Cancelled   bool                `json:"cancelled,omitempty"`
}

// CertificationOutcome is how a run ended.
type CertificationOutcome struct {
	RunID       string                      `json:"run_id"`
	State       postgres.CertificationState `json:"state"`
	Certificate int64                       `json:"certificate,omitempty"`
	Summary     string                      `json:"summary,omitempty"` // why it did not pass
	Calls       int                         `json:"calls"`             // made
	Cost        string                      `json:"cost"`
	Currency    string                      `json:"currency"`
}

// FinishCertification makes the report of the run's calls and ends it, with a certificate if it
// passed. It may be repeated: a run that has ended stays as it is.
func (a *Activities) FinishCertification(ctx context.Context, in CertificationFinish) (CertificationOutcome, error) {
	defer heartbeat(ctx, nothingToTell)()
	outcome, err := a.finishCertification(ctx, in)
	return outcome, certificationError(err)
}

func (a *Activities) finishCertification(ctx context.Context, in CertificationFinish) (o CertificationOutcome, err error) {
	c, err := a.contractOf(ctx, in.ContractSHA256)
	if err != nil {
		return o, err
	}
	run, err := a.Store.Certification(ctx, in.RunID)
	if err != nil {
		return o, err
	}
	calls, err := a.closedCalls(ctx, in.RunID)
	if err != nil {
		return o, err
	}
	at := certify.Circumstances{RunID: in.RunID, Adapter: run.Adapter, Cancelled: in.Cancelled}
	if at.Primary, at.Compared, err = a.primaryCalls(ctx, in); err != nil {
		return o, err
	}
	report := certify.Conclude(c, certify.Subject{Provider: run.Provider, Model: run.Model}, in.Preparation, calls, at)
	if run, err = a.endCertification(ctx, c, in, &report); err != nil {
		return o, err
	}
	a.Logger.Info("certification ended", "certification", run.ID, "contract", run.Contract, "provider", run.Provider, "state", run.State, "why", report.Summary)
	return CertificationOutcome{
		RunID: run.ID, State: run.State, Certificate: run.Certificate, Summary: report.Summary,
		Calls: report.Totals.Calls, Cost: report.Totals.Cost, Currency: report.Totals.Currency,
	}, nil
}

// endCertification ends the run as the report says. A certificate that was revoked meanwhile is
// not replaced.
func (a *Activities) endCertification(ctx context.Context, c *contract.Contract, in CertificationFinish, report *certify.Report) (postgres.Certification, error) {
	state := postgres.CertificationFailed
	switch {
	case in.Cancelled:
		state = postgres.CertificationCancelled
	case report.Passed:
		state = postgres.CertificationPassed
	}
	for {
		text, err := json.Marshal(report)
		if err != nil {
			return postgres.Certification{}, err
		}
		run, err := a.Store.EndCertificationIfRunning(ctx, in.RunID, postgres.CertificationEnd{State: state, Report: text, ValidFor: c.ValidFor})
		if !errors.Is(err, onejob.ErrConflict) || state != postgres.CertificationPassed {
			return run, err
		}
		state, report.Passed, report.Summary = postgres.CertificationFailed, false, err.Error()
	}
}

// closedCalls returns the run's calls, each with an outcome: one that nobody makes any more is
// closed before.
func (a *Activities) closedCalls(ctx context.Context, runID string) (calls []certify.Call, err error) {
	rows, err := a.Store.CertificationCalls(ctx, runID)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if row.State != postgres.CallCalling {
			continue
		}
		if _, err := a.Store.FenceCall(ctx, row.CertificationCall); err != nil {
			return nil, err
		}
		rows[i].State, rows[i].Reason, rows[i].Detail = postgres.CallUnknown, onejob.ReasonWorkerLost, "the worker that made the call was lost"
	}
	return callsOf(rows), nil
}

func callsOf(rows []postgres.CallRow) (calls []certify.Call) {
	for _, row := range rows {
		calls = append(calls, certify.Call{
			Case: row.Case, Repeat: row.Repeat, Try: row.Try, State: string(row.State), Reason: string(row.Reason), Detail: row.Detail, Usage: row.Usage,
			SHA256: row.ReplySHA256, Reply: row.Reply, Verdict: row.Verdict, Latency: row.Latency, StartedAt: row.StartedAt, Cost: row.Cost, Currency: row.Currency,
		})
	}
	return calls
}

// primaryCalls returns the calls of the primary's newest run of the contract, if there is one.
func (a *Activities) primaryCalls(ctx context.Context, in CertificationFinish) (string, []certify.Call, error) {
	if in.Primary == "" || in.Primary == in.Provider {
		return "", nil, nil
	}
	run, err := a.Store.LatestCertification(ctx, in.ContractSHA256, in.Primary)
	if err != nil || run.ID == "" {
		return "", nil, err
	}
	rows, err := a.Store.CertificationCalls(ctx, run.ID)
	return in.Primary, callsOf(rows), err
}
