package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// judged returns a provider's success as its job sees it: what the model wrote, where that
// is what the contract wants, and a violation where it is not. Asked is the bytes of what the
// provider was asked, by which a usage that it did not tell is estimated. Every other answer,
// and all without a contract, stay as they are.
func judged(c *contract.Contract, p provider.Provider, input []byte, asked int, answer provider.Answer) provider.Answer {
	if c == nil || answer.Certainty != provider.Succeeded {
		return answer
	}
	if answer.Usage == nil {
		answer.Usage = provider.EstimateUsage(asked, len(answer.Result))
	}
	prompter, ok := p.Adapter.(provider.Prompter)
	if !ok {
		return violation(answer, "the adapter does not say what the model wrote")
	}
	reply, err := prompter.Reply(answer.Result)
	if err != nil {
		return violation(answer, err.Error())
	}
	if verdict := c.CheckReply(input, reply.Text, reply.End); !verdict.Passed() {
		return violation(answer, verdict.String())
	}
	answer.Result = reply.Text
	return answer
}

func violation(answer provider.Answer, detail string) provider.Answer {
	answer.Certainty, answer.Reason, answer.Detail, answer.Result = provider.Failed, onejob.ReasonContractViolation, detail, nil
	answer.Retryable, answer.RetryAfter = false, 0
	return answer
}

// ErrNoContract says that an answer cannot be judged here.
var ErrNoContract = errors.New("this worker's onejob.yaml has no contract for the kind: another worker judges the answer")

// Judge judges by the contracts of the kinds what is heard of attempts, wherever it is heard.
type Judge struct {
	Contracts Contracts
	Catalog   onejob.Catalog
	Store     *postgres.Store
	Observer  interface{ CertificateSuspended(provider string) }
	Logger    *slog.Logger
}

// JudgeOf returns the judge of those activities.
func JudgeOf(o Options) Judge {
	return Judge{Contracts: o.Contracts, Catalog: o.Catalog, Store: o.Store, Observer: o.Observer, Logger: o.Logger}
}

// Judged returns an answer about an attempt as its job sees it: a success that was asked for
// by a contract is judged by the one that the kind has now. It fails with [ErrNoContract], and
// as the store does; nothing is to be recorded then.
func (j Judge) Judged(ctx context.Context, jobID string, about postgres.Sought, p provider.Provider, answer provider.Answer) (provider.Answer, error) {
	if about.Contract == "" || answer.Certainty != provider.Succeeded {
		return answer, nil
	}
	c, ok := j.Contracts[about.Kind]
	if !ok {
		return answer, fmt.Errorf("kind %q: %w", about.Kind, ErrNoContract)
	}
	input, err := j.Store.Input(ctx, jobID)
	if err != nil {
		return answer, err
	}
	return judged(c, p, input, about.InputBytes, answer).Checked(j.Catalog.Limits), nil
}

// Heard looks at the outcome that an attempt came to: a provider whose replies break the
// contract too often loses its certificate. What cannot be counted now counts with the next
// violation.
func (j Judge) Heard(ctx context.Context, p provider.Provider, kind string, recorded postgres.Recorded) {
	c, ok := j.Contracts[kind]
	if !ok || !recorded.Changed || recorded.Attempt.Reason != onejob.ReasonContractViolation {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	log := j.Logger.With("provider", p.Name, "model", p.Model, "kind", kind, "contract", c.File)
	proved := postgres.Proved{ContractSHA256: c.SHA256, Provider: p.Name, Model: p.Model, Adapter: p.AdapterVersion()}
	suspended, err := j.Store.SuspendCertificateIfViolated(ctx, proved, j.Catalog.Kinds[kind].Suspend)
	if err != nil {
		log.Warn("cannot count the violations of the contract", "error", err)
	}
	if suspended > 0 {
		j.Observer.CertificateSuspended(p.Name)
		log.Warn("certificate suspended: the provider's replies break the contract; certify it again with 'onejob contract verify'", "sha256", c.SHA256)
	}
}

// skipped counts an attempt whose provider has no certificate.
func (e *execution) skipped(a onejob.Attempt) onejob.Attempt {
	e.Observer.AttemptBecame(e.in.Provider, a.State, a.Reason)
	e.Logger.Warn("provider skipped: it has no valid certificate", "job_id", e.in.JobID, "attempt", a.Number, "provider", a.Provider, "detail", a.Detail)
	a.Detail = "" // a workflow carries codes
	return a
}
