package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
	"github.com/onejob/onejob/starter"
)

func (d *Door) addDecisions() {
	refusals := []ProblemType{notFound, attemptUnresolved, nothingToResolve, jobClosed}
	add(d, route{
		method: http.MethodPost, path: "/v1/jobs/{job}/attempts", id: "start-attempt", tag: "Decisions", summary: "Ask for a new attempt",
		description: "The fallback button: the job's next attempt goes to that provider, and a failed job is opened again. Refused while an attempt is under way " +
			"or unknown. The key names this one press of the button; what it was answered, a refusal too, it is answered again.",
		status: http.StatusAccepted, keyed: keyRequired, body: attemptRequest{}, example: json.RawMessage(`{"provider": "fallback", "reason": "the first one is silent"}`),
		problems: append(refusals, notCertified, budgetExceeded),
	}, d.startAttempt)
	add(d, route{
		method: http.MethodPost, path: "/v1/jobs/{job}/attempts/{attempt}/cancel", id: "cancel-attempt", tag: "Decisions", summary: "Give up an attempt",
		description: "Its provider is asked first to give the call up; one that says that it is done already is believed. The plan of the job goes on.",
		keyed:       keyOptional, body: giveUp{}, bodyless: true, example: json.RawMessage(`{"reason": "the customer waits"}`), problems: refusals,
	}, d.cancelAttempt)
	add(d, route{
		method: http.MethodPost, path: "/v1/jobs/{job}/attempts/{attempt}/resolve", id: "resolve-attempt", tag: "Decisions", summary: "Say what became of an attempt",
		description: "For those who looked it up at the provider. A result then has to win like any other. Not for owners: it decides what they pay.",
		least:       onejob.RoleOperator, keyed: keyOptional, body: resolution{}, most: d.options.Limits.ResultBytes + mostEnvelopeBytes,
		example: json.RawMessage(`{"as": "succeeded", "result": {"answer": "Tomorrow"}, "reason": "found in the provider's console"}`), problems: refusals,
	}, d.resolveAttempt)
	add(d, route{
		method: http.MethodPost, path: "/v1/jobs/{job}/cancel", id: "cancel-job", tag: "Decisions", summary: "Cancel a job",
		description: "Closes it as cancelled; its attempts are given up.", keyed: keyOptional, body: giveUp{}, bodyless: true, example: json.RawMessage(`{"reason": "ordered twice"}`), problems: refusals,
	}, d.cancelJob)
}

type attemptRequest struct {
	Provider string `json:"provider" doc:"Where to try." example:"fallback"`
	Reason   string `json:"reason,omitempty" doc:"Recorded with who asked." maxLength:"4096"`

	Uncertified bool `json:"uncertified,omitempty" doc:"Also without a certificate for the contract of the job's kind. For operators; recorded with who asked."`
}

type giveUp struct {
	Reason string `json:"reason,omitempty" doc:"Recorded with who decided." maxLength:"4096"`
}

type resolution struct {
	As     onejob.AttemptState `json:"as" enum:"failed,succeeded" doc:"What became of it."`
	Result json.RawMessage     `json:"result,omitempty" doc:"Of one that succeeded: what it produced."`
	Reason string              `json:"reason,omitempty" doc:"Recorded with who decided." maxLength:"4096"`
}

type attemptInput struct {
	JobPath
	Attempt int `path:"attempt" minimum:"1" maximum:"1000000" doc:"The attempt's number." example:"1"`
}

func (d *Door) startAttempt(ctx context.Context, in *JobPath) (*jobOutput, error) {
	var asked attemptRequest
	role := exchangeOf(ctx).principal.Role
	return d.decide(ctx, in.Job, keyRequired, &asked, func(id string, by starter.Decision) error {
		if asked.Uncertified && !role.Includes(onejob.RoleOperator) {
			return newProblem(forbidden, "uncertified needs the role %s, and the token has %s", onejob.RoleOperator, role)
		}
		by.Reason, by.Uncertified = asked.Reason, asked.Uncertified
		return d.options.Starter.StartAttempt(ctx, id, asked.Provider, by)
	})
}

func (d *Door) cancelAttempt(ctx context.Context, in *attemptInput) (*jobOutput, error) {
	var why giveUp
	return d.decide(ctx, in.Job, keyOptional, &why, func(id string, by starter.Decision) error {
		by.Reason = why.Reason
		return d.options.Starter.CancelAttempt(ctx, id, in.Attempt, by)
	})
}

func (d *Door) resolveAttempt(ctx context.Context, in *attemptInput) (*jobOutput, error) {
	var said resolution
	return d.decide(ctx, in.Job, keyOptional, &said, func(id string, by starter.Decision) error {
		by.Reason = said.Reason
		return d.options.Starter.ResolveAttempt(ctx, id, in.Attempt, said.As, said.Result, by)
	})
}

func (d *Door) cancelJob(ctx context.Context, in *JobPath) (*jobOutput, error) {
	var why giveUp
	return d.decide(ctx, in.Job, keyOptional, &why, func(id string, by starter.Decision) error {
		by.Reason = why.Reason
		return d.options.Starter.CancelJob(ctx, id, by)
	})
}

// decide reads the body, lets decide tell the starter, and returns how the job is then.
func (d *Door) decide(ctx context.Context, jobID string, keyed keying, body any, decide func(id string, by starter.Decision) error) (*jobOutput, error) {
	found, err := d.job(ctx, jobID)
	if err != nil {
		return nil, err
	}
	x := exchangeOf(ctx)
	by := starter.Decision{By: x.principal.By}
	if len(x.request.Header.Values(wire.KeyHeader)) > 0 || keyed == keyRequired {
		key, err := idempotencyKey(x.request.Header)
		if err != nil {
			return nil, err
		}
		by.Token = decisionToken(x.principal.Owner, key, found.JobID)
	}
	if err := decode(x, body); err != nil {
		return nil, err
	}
	if err := decide(found.JobID, by); err != nil {
		return nil, err
	}
	found, err = d.job(ctx, jobID)
	return &jobOutput{found}, err
}

// decisionToken is the token of the decision that a key names: the same key of the same owner
// about the same job is the same decision.
func decisionToken(owner, key, jobID string) string {
	h := sha256.New()
	for _, part := range []string{owner, key, jobID} {
		text, _ := json.Marshal(part) // a string
		h.Write(append(text, '\n'))
	}
	return "key/" + hex.EncodeToString(h.Sum(nil))
}
