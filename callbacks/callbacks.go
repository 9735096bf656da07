// Package callbacks receives what providers tell of attempts by calling back.
//
// A callback is one POST to [provider.CallbackPath], signed by Standard Webhooks
// (standardwebhooks.com) with the provider's secret. What it says resolves the attempt
// exactly as a late answer would, and is committed before it is acknowledged; then the
// job's workflow is told. It is heard once: its webhook-id says which it is.
//
// The statuses say to the sender whether to send it again:
//
//	200  it resolved the attempt, said that it is in progress, or was heard before
//	400  a header is missing, or the body is no outcome
//	401  the signature does not hold, or its time is more than five minutes off
//	404  the provider has no such attempt, its token is another, or no callbacks are
//	     configured for it
//	410  the attempt has its outcome: nothing was changed, no further callback will
//	413  the body is longer than a result may be
//	503  Postgres does not answer, or this worker lacks the contract that judges it: send it again
//
// It imports the domain, provider, postgres and activities, and nothing else of this
// module.
package callbacks

import (
	"context"
	"crypto/hmac"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
)

// Options are what a receiver works with. Every option but Limits must be set.
type Options struct {
	Store     *postgres.Store
	Providers *provider.Registry
	Limits    onejob.Limits
	Judge     activities.Judge
	Tell      Teller
	Observer  Observer
	Logger    *slog.Logger
}

// Teller tells a job's workflow that its rows changed. Losing the message delays the job
// until the workflow looks by itself.
type Teller interface {
	AttemptChanged(ctx context.Context, workflowID string, attempt int) error
}

// Observer counts what happens.
type Observer interface {
	AttemptBecame(provider string, state onejob.AttemptState, reason onejob.Reason)
	RaceLost(provider string)
}

// mostBodies bounds the callbacks whose bodies are held at once. The others wait, until the
// server's time for them is over.
const mostBodies = 32

type receiver struct {
	Options
	bodies chan struct{}
}

// New returns the handler of the callbacks.
func New(o Options) http.Handler {
	r := &receiver{o, make(chan struct{}, mostBodies)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/callbacks/{provider}/{job}/{attempt}/{token}", func(w http.ResponseWriter, req *http.Request) {
		if err := r.receive(w, req); err != nil {
			r.refuse(w, req, err)
		}
	})
	return mux
}

// refusal is an error with the status that the sender gets.
type refusal struct {
	status int
	line   string
}

func (r refusal) Error() string { return r.line }

var (
	errNoSuchAttempt = refusal{http.StatusNotFound, "no such attempt awaits a callback"}
	errOver          = refusal{http.StatusGone, "the attempt has its outcome: nothing was changed"}
)

func (r *receiver) receive(w http.ResponseWriter, req *http.Request) error {
	from, reader, err := r.sender(req)
	if err != nil {
		return err
	}
	jobID, number, err := addressed(req, from)
	if err != nil {
		return err
	}
	about, err := r.Store.SoughtAttempt(req.Context(), jobID, number)
	if err != nil {
		return err
	}
	select {
	case r.bodies <- struct{}{}:
		defer func() { <-r.bodies }()
	case <-req.Context().Done():
		return req.Context().Err()
	}
	body, err := r.body(w, req)
	if err != nil {
		return err
	}
	if err := verify(from.Callback.Secrets, body, req.Header); err != nil {
		return err
	}
	c := postgres.Callback{Provider: from.Name, WebhookID: req.Header.Get(standardwebhooks.HeaderWebhookID), JobID: jobID, Attempt: number}
	answer, err := r.Judge.Judged(req.Context(), jobID, about, from, reader.ReadCallback(body).Checked(r.Limits))
	if err != nil {
		return err
	}
	if err := read(&c, answer, about.InputBytes); err != nil {
		return err
	}
	heard, err := r.Store.HearCallbackOnce(req.Context(), c)
	if err != nil {
		return err
	}
	r.Judge.Heard(req.Context(), from, about.Kind, heard.Recorded)
	return r.answer(w, req, c, heard)
}

// sender returns the provider that the path names, if it may call back.
func (r *receiver) sender(req *http.Request) (provider.Provider, provider.CallbackReader, error) {
	from, ok := r.Providers.Get(req.PathValue("provider"))
	if !ok || from.Callback == nil {
		return from, nil, errNoSuchAttempt
	}
	reader, ok := from.Adapter.(provider.CallbackReader)
	if !ok {
		return from, nil, errNoSuchAttempt
	}
	return from, reader, nil
}

// addressed returns the attempt that the path names, if its token is there.
func addressed(req *http.Request, from provider.Provider) (jobID string, number int, err error) {
	id, err := uuid.Parse(req.PathValue("job"))
	if err != nil {
		return "", 0, errNoSuchAttempt
	}
	number, err = strconv.Atoi(req.PathValue("attempt"))
	if err != nil || number < 1 || number > 1<<31-1 {
		return "", 0, errNoSuchAttempt
	}
	for _, secret := range from.Callback.Secrets {
		if hmac.Equal([]byte(req.PathValue("token")), []byte(provider.CallbackToken(from.Name, id.String(), number, secret))) {
			return id.String(), number, nil
		}
	}
	return "", 0, errNoSuchAttempt
}

// answer tells the sender what its callback did, after telling the workflow.
func (r *receiver) answer(w http.ResponseWriter, req *http.Request, c postgres.Callback, heard postgres.Heard) error {
	r.Logger.Info("a provider called back", "provider", c.Provider, "job_id", c.JobID, "attempt", c.Attempt, "effect", heard.Effect)
	switch heard.Effect {
	case postgres.CallbackLate:
		if c.Outcome != nil && c.Outcome.State == onejob.AttemptSucceeded {
			r.Observer.RaceLost(c.Provider)
		}
		return errOver
	case postgres.CallbackResolved:
		r.Observer.AttemptBecame(c.Provider, heard.Recorded.Attempt.State, heard.Recorded.Attempt.Reason)
		if heard.Recorded.Attempt.Discarded {
			r.Observer.RaceLost(c.Provider)
		}
		if err := r.Tell.AttemptChanged(req.Context(), heard.WorkflowID, c.Attempt); err != nil {
			r.Logger.Warn("cannot tell the workflow now; it looks by itself", "job_id", c.JobID, "attempt", c.Attempt, "error", err)
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// refuse answers with the error's status and one line.
func (r *receiver) refuse(w http.ResponseWriter, req *http.Request, err error) {
	status, line := http.StatusServiceUnavailable, "not now: send it again"
	if known, ok := errors.AsType[refusal](err); ok {
		status, line = known.status, known.line
	} else if errors.Is(err, onejob.ErrNotFound) {
		status, line = http.StatusNotFound, errNoSuchAttempt.line
	} else {
		r.Logger.Error("a callback was not taken", "path", req.URL.Path, "error", err)
	}
	http.Error(w, line, status)
}
