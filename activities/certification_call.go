package activities

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/certify"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

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
		Provider: in.Provider, Model: p.Model, Adapter: p.AdapterVersion(), MostAtOnce: p.Limits.Concurrent,
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
