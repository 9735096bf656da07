package activities

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

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
		ID: in.RunID, Contract: c.Kind, ContractSHA256: c.SHA256, Provider: in.Provider, Model: p.Model, Adapter: p.AdapterVersion(), RequestedBy: in.RequestedBy,
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
