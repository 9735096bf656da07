package starter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/starter"
)

const patience = time.Minute

var quiet = slog.New(slog.DiscardHandler)

// rig is a starter on servers of the environment, where no worker runs what it starts.
type rig struct {
	*starter.Starter
	t        *testing.T
	temporal client.Client
	owner    string
}

func newRig(t *testing.T, change ...func(*starter.Options)) *rig {
	t.Helper()
	t.Parallel()
	address, namespace := testservers.Temporal(t)
	o := starter.Options{
		Store: pgtest.Store(t), Temporal: dial(t, address, namespace), TaskQueue: uuid.NewString(), Logger: quiet,
		Catalog: onejob.Catalog{Kinds: map[string]onejob.Kind{"ticket": {}}, Providers: map[string]onejob.ProviderDefaults{"primary": {}}},
	}
	for _, f := range change {
		f(&o)
	}
	return &rig{Starter: starter.New(o), t: t, temporal: o.Temporal, owner: uuid.NewString()}
}

func dial(t *testing.T, address, namespace string) client.Client {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// nowhere is an address that refuses every connection.
const nowhere = "127.0.0.1:1"

func withoutTemporal(t *testing.T) func(*starter.Options) {
	return func(o *starter.Options) { o.Temporal = dial(t, nowhere, client.DefaultNamespace) }
}

func (r *rig) request(key string) onejob.Request {
	return onejob.Request{Owner: r.owner, Key: key, Kind: "ticket", Provider: "primary", Input: json.RawMessage(`{"text": "hello"}`)}
}

// requests are so many under keys of their own; next is told before each.
func (r *rig) requests(n int, next func()) iter.Seq[onejob.Request] {
	return func(yield func(onejob.Request) bool) {
		for i := range n {
			next()
			if !yield(r.request(fmt.Sprintf("order-%04d", i))) {
				return
			}
		}
	}
}

func (r *rig) mustSubmit(request onejob.Request) onejob.Submitted {
	r.t.Helper()
	submitted, err := r.Submit(r.t.Context(), request)
	if err != nil {
		r.t.Fatal(err)
	}
	return submitted
}

// mustHaveJobs asserts how many jobs the owner has.
func (r *rig) mustHaveJobs(want int) {
	r.t.Helper()
	if jobs, err := r.List(r.t.Context(), postgres.Filter{Owner: r.owner, Limit: 1000}); err != nil || len(jobs) != want {
		r.t.Errorf("%d jobs, %v; want %d", len(jobs), err, want)
	}
}

func TestSubmitWhoseAcknowledgementIsLostHasCreatedItsJob(t *testing.T) {
	proxy := pgproxy.Start(t, pgtest.URL(t))
	r := newRig(t, func(o *starter.Options) { o.Store = pgtest.Open(t, proxy.URL()) })
	for name, submit := range map[string]func(onejob.Request) (onejob.Submitted, error){
		"one": func(request onejob.Request) (onejob.Submitted, error) { return r.Submit(t.Context(), request) },
		"many": func(request onejob.Request) (onejob.Submitted, error) {
			for submitted, err := range r.SubmitAll(t.Context(), slices.Values([]onejob.Request{request})) {
				return submitted, err
			}
			return onejob.Submitted{}, errors.New("no answer")
		},
	} {
		lost := proxy.SwallowCommit("INSERT INTO jobs")
		first, err := submit(r.request(name))
		if err != nil || !first.Created {
			t.Errorf("%s: got %+v, %v; want it created", name, first, err)
		}
		select {
		case <-lost.Fired():
		default:
			t.Errorf("%s: no acknowledgement was lost", name)
		}
		if again, err := submit(r.request(name)); err != nil || again.Created || again.JobID != first.JobID {
			t.Errorf("%s: a second time it got %+v, %v", name, again, err)
		}
	}
	r.mustHaveJobs(2)
}

func TestSubmitAllAnswersInOrderWhateverIsRefused(t *testing.T) {
	r := newRig(t)
	other, bad := r.request("k"), r.request("bad")
	other.Input, bad.Provider = json.RawMessage("2"), "nobody"
	requests := []onejob.Request{r.request("k"), other, bad, r.request("k")}
	refusals := []error{nil, onejob.ErrConflict, onejob.ErrInvalidRequest, nil}
	for i := 200; i > 0; i-- { // several round trips, against the order of the keys
		requests, refusals = append(requests, r.request(fmt.Sprintf("order-%04d", i))), append(refusals, nil)
	}
	var answers []onejob.Submitted
	for got, err := range r.SubmitAll(t.Context(), slices.Values(requests)) {
		i := len(answers)
		answers = append(answers, got)
		if !errors.Is(err, refusals[i]) {
			t.Errorf("request %d got %v, want %v", i, err, refusals[i])
		}
		if err == nil && (got.WorkflowID != onejob.WorkflowID(r.owner, requests[i].Key) || got.Created != (i != 3)) {
			t.Errorf("request %d got %+v", i, got)
		}
	}
	if len(answers) != len(requests) || answers[0].JobID != answers[3].JobID {
		t.Errorf("%d answers to %d requests, the first %+v", len(answers), len(requests), answers[:4])
	}
	r.mustHaveJobs(201)
}

func TestSubmitAllTakesNoMoreWhenItsCallerStops(t *testing.T) {
	r := newRig(t)
	asked := 0
	for _, err := range r.SubmitAll(t.Context(), r.requests(500, func() { asked++ })) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if asked == 500 {
		t.Error("it read every request")
	}
	r.mustHaveJobs(asked)
}

func TestSubmitAllEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked, answered := 0, 0
	var last error
	for _, err := range r.SubmitAll(ctx, r.requests(500, func() { asked++ })) {
		answered++
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) || asked == 500 {
		t.Errorf("after %d of %d requests it ended with %v", asked, answered, last)
	}
	r.mustHaveJobs(asked)
}

// warnings is a log that keeps what it is told.
func warnings() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, nil)), &text
}

func TestJobsAreAcceptedWithTemporalAway(t *testing.T) {
	logger, told := warnings()
	r := newRig(t, withoutTemporal(t), func(o *starter.Options) { o.Logger = logger })
	const many = 200
	for got, err := range r.SubmitAll(t.Context(), r.requests(many, func() {})) {
		if err != nil || !got.Created || got.Launched || got.Status != onejob.StatusAccepted {
			t.Fatalf("got %+v, %v; want it accepted and not launched", got, err)
		}
	}
	if n := strings.Count(told.String(), "level=WARN"); n == 0 || n == many {
		t.Errorf("%d of %d jobs waited for Temporal, want those of the first round trip", n, many)
	}
	r.mustHaveJobs(many)
	again := r.mustSubmit(r.request("order-0000"))
	if again.Created || again.Launched {
		t.Errorf("a second time it got %+v", again)
	}
}

// TestDecisionNeedsNoTemporal: nor does waiting for what it led to.
func TestDecisionNeedsNoTemporal(t *testing.T) {
	r := newRig(t, withoutTemporal(t))
	job := r.mustSubmit(r.request("k"))
	if err := r.CancelJob(t.Context(), job.JobID, starter.Decision{By: "ana"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if done, err := r.Wait(ctx, job.JobID); err != nil || done.Status != onejob.StatusCancelled {
		t.Errorf("got %+v, %v", done.View, err)
	}
}

func TestSubmitNamesWhatTemporalLacks(t *testing.T) {
	address, _ := testservers.Temporal(t)
	r := newRig(t, func(o *starter.Options) { o.Temporal = dial(t, address, "missing-"+uuid.NewString()) })
	r.eventually("the submit says what is wrong", func() bool {
		got, err := r.Submit(t.Context(), r.request("k"))
		return errors.Is(err, onejob.ErrMisconfigured) && got.JobID != "" && !got.Launched
	})
	r.mustHaveJobs(1)
}

func TestSubmitTellsThatTheWorkflowIsStarted(t *testing.T) {
	r := newRig(t)
	r.eventually("the job is launched", func() bool { return r.mustSubmit(r.request("k")).Launched })
	job, err := r.GetByKey(t.Context(), r.owner, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.temporal.DescribeWorkflow(t.Context(), job.WorkflowID, ""); err != nil {
		t.Errorf("of its workflow Temporal says %v", err)
	}
}

// eventually repeats what a busy Temporal may not answer in time.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		if time.Now().After(deadline) {
			r.t.Fatalf("did not happen within %v: %s", patience, what)
		}
	}
}

func TestPostgresAwayStartsNothing(t *testing.T) {
	r := newRig(t, func(o *starter.Options) { o.Store = pgtest.Open(t, "postgres://nobody@"+nowhere+"/nothing") })
	request := r.request("k")
	if got, err := r.Submit(t.Context(), request); !errors.Is(err, onejob.ErrServerUnreachable) || got.JobID != "" {
		t.Errorf("got %+v, %v; want that Postgres does not answer", got, err)
	}
	for got, err := range r.SubmitAll(t.Context(), slices.Values([]onejob.Request{request})) {
		if !errors.Is(err, onejob.ErrServerUnreachable) || got.JobID != "" {
			t.Errorf("of many got %+v, %v; want that Postgres does not answer", got, err)
		}
	}
	_, err := r.temporal.DescribeWorkflow(t.Context(), onejob.WorkflowID(r.owner, "k"), "")
	if _, none := errors.AsType[*serviceerror.NotFound](err); !none {
		t.Errorf("of its workflow Temporal says %v, want that there is none", err)
	}
}

func TestJobIsAnsweredAfterItsProviderLeftTheConfiguration(t *testing.T) {
	var options starter.Options
	r := newRig(t, func(o *starter.Options) { options = *o })
	job := r.mustSubmit(r.request("old"))
	options.Catalog.Providers = map[string]onejob.ProviderDefaults{"another": {}}
	later := starter.New(options)
	if got, err := later.Submit(t.Context(), r.request("old")); err != nil || got.JobID != job.JobID || got.Created {
		t.Errorf("the same intent got %+v, %v", got, err)
	}
	other := r.request("old")
	other.Input = json.RawMessage("2")
	for name, request := range map[string]onejob.Request{"another intent": other, "a new key": r.request("new")} {
		if got, err := later.Submit(t.Context(), request); !errors.Is(err, onejob.ErrInvalidRequest) || got.JobID != "" {
			t.Errorf("%s got %+v, %v", name, got, err)
		}
	}
	r.mustHaveJobs(1)
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	r := newRig(t)
	none := uuid.NewString()
	by := starter.Decision{By: "ana"}
	r.mustSubmit(r.request("k"))
	_, byID := r.Get(t.Context(), none)
	_, byKey := r.GetByKey(t.Context(), r.owner, "another")
	_, byOwner := r.GetByKey(t.Context(), "another", "k")
	_, waited := r.Wait(t.Context(), none)
	for what, err := range map[string]error{
		"Get": byID, "GetByKey of another key": byKey, "GetByKey of another owner": byOwner, "Wait": waited,
		"StartAttempt":  r.StartAttempt(t.Context(), none, "primary", by),
		"CancelAttempt": r.CancelAttempt(t.Context(), none, 0, by),
		"CancelJob":     r.CancelJob(t.Context(), none, by),
	} {
		if !errors.Is(err, onejob.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	r := newRig(t)
	job := r.mustSubmit(r.request("k")) // nobody runs it
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Wait(ctx, job.JobID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
