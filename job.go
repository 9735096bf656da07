package onejob

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Job is the durable record of an intention. Its row never multiplies.
type Job struct {
	ID                 string // UUIDv7
	Owner              string
	Key                string
	WorkflowID         string
	Kind               string
	Provider           string
	Fallbacks          []string
	HedgeAfter         time.Duration // 0: never
	CallbackURL        string
	Input              json.RawMessage
	Fingerprint        []byte // SHA-256
	FingerprintVersion int
	Timeout            time.Duration
	ListenFor          time.Duration
	MaxAttempts        int
	Labels             map[string]string
	Reckoning          Reckoning // of a new job; not stored

	// What became of it; a new job has none of this.
	Status      Status
	Version     int // decisions about the result slot so far
	CompletedBy int // number of the attempt that won, 0: none
	Result      json.RawMessage
	Error       *JobError
	Requested   string // provider of the attempt somebody asked for and that has not started
	CreatedAt   time.Time
	FinishedAt  time.Time // zero: not closed
}

// JobError says why a job failed.
type JobError struct {
	Code    Reason `json:"code"`
	Message string `json:"message"`
}

// NewJob validates a request against the catalog, fills in the defaults, and returns
// the job that it asks for, with an ID of its own. Every door makes jobs by this
// function and no other. It returns an [ErrInvalidRequest] that names the value and
// the remedy.
func NewJob(r Request, c Catalog) (Job, error) {
	limits := c.Limits.OrDefault()
	if err := r.check(limits); err != nil {
		return Job{}, err
	}
	if err := c.check(r); err != nil {
		return Job{}, err
	}
	reckoning, err := c.reckon(r)
	if err != nil {
		return Job{}, err
	}
	fingerprint, err := Fingerprint(r.Intent(), limits.Depth)
	if err != nil {
		return Job{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Job{}, err
	}
	defaults := c.Providers[r.Provider]
	job := Job{
		ID:                 id.String(),
		Owner:              r.Owner,
		Key:                r.Key,
		WorkflowID:         WorkflowID(r.Owner, r.Key),
		Kind:               r.Kind,
		Provider:           r.Provider,
		Fallbacks:          append([]string{}, r.Fallbacks...),
		HedgeAfter:         time.Duration(r.HedgeAfter),
		CallbackURL:        r.CallbackURL,
		Input:              r.Input,
		Fingerprint:        fingerprint[:],
		FingerprintVersion: FingerprintVersion,
		Timeout:            cmp.Or(time.Duration(r.Timeout), defaults.Timeout, DefaultTimeout),
		ListenFor:          cmp.Or(time.Duration(r.ListenFor), defaults.ListenFor, DefaultListenFor),
		MaxAttempts:        cmp.Or(r.MaxAttempts, DefaultMaxAttempts),
		Labels:             r.Labels,
		Reckoning:          reckoning,
		Status:             StatusAccepted,
	}
	if err := job.checkTimes(); err != nil {
		return Job{}, err
	}
	return job, nil
}

func (j *Job) checkTimes() error {
	if j.ListenFor < j.Timeout {
		return Errorf(CodeInvalidRequest, "listen_for %v is shorter than timeout %v: listening goes on after the timeout, make it at least as long", j.ListenFor, j.Timeout)
	}
	return nil
}

// Intent returns the part of the request that identifies what its job is for.
func (r Request) Intent() Intent {
	return Intent{Kind: r.Kind, Provider: r.Provider, Fallbacks: r.Fallbacks, Hedge: r.HedgeAfter > 0, CallbackURL: r.CallbackURL, Input: r.Input}
}

// Reference is what travels to the workflow in place of the job: ids, names and
// times, never the payload.
type Reference struct {
	JobID       string   `json:"job_id"`
	Owner       string   `json:"owner"`
	Key         string   `json:"key"`
	Kind        string   `json:"kind"`
	Provider    string   `json:"provider"`
	Fallbacks   []string `json:"fallbacks,omitempty"`
	Timeout     Duration `json:"timeout"`
	ListenFor   Duration `json:"listen_for"`
	MaxAttempts int      `json:"max_attempts"`
	HedgeAfter  Duration `json:"hedge_after,omitzero"`
	Limited     []string `json:"limited,omitempty"` // providers whose attempts wait in a task queue of their own
	Hold        bool     `json:"hold,omitempty"`    // with no certified provider left the job waits; false: it fails
	Adopt       bool     `json:"adopt,omitempty"`   // attempts may exist: read the rows first
}

// Reference returns the job's reference.
func (j *Job) Reference() Reference {
	return Reference{
		JobID: j.ID, Owner: j.Owner, Key: j.Key, Kind: j.Kind,
		Provider: j.Provider, Fallbacks: j.Fallbacks,
		Timeout: Duration(j.Timeout), ListenFor: Duration(j.ListenFor), MaxAttempts: j.MaxAttempts,
		HedgeAfter: Duration(j.HedgeAfter),
	}
}

// Attempt is one concrete try to fulfil a job on one provider.
type Attempt struct {
	Number     int          `json:"number"` // 1, 2, … within the job
	Lane       int          `json:"lane"`   // 0; 1: the second lane of a job that allows a hedge
	Provider   string       `json:"provider"`
	State      AttemptState `json:"state"`
	Reason     Reason       `json:"reason"`
	Detail     string       `json:"detail,omitempty"`     // prose, cut and cleaned of secrets
	Retryable  bool         `json:"retryable,omitempty"`  // it failed without effect: its provider may be asked again
	RetryAfter Duration     `json:"retry_after,omitzero"` // the provider's hint
	Decided    bool         `json:"decided,omitempty"`    // its result has won or was discarded
	Discarded  bool         `json:"discarded"`
	StartedAt  time.Time    `json:"started_at,omitzero"`
	FinishedAt time.Time    `json:"finished_at,omitzero"`
}

// MarshalJSON writes every field that programs rely on, null for a time that has not come.
func (a Attempt) MarshalJSON() ([]byte, error) {
	type plain Attempt // without this method
	return json.Marshal(struct {
		plain
		StartedAt  *time.Time `json:"started_at"`
		FinishedAt *time.Time `json:"finished_at"`
	}{plain(a), orNull(a.StartedAt), orNull(a.FinishedAt)})
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Unresolved says that nothing else may start in the attempt's lane: it is under way,
// unknown, or has an answer that was not decided on yet.
func (a Attempt) Unresolved() bool {
	return !a.State.Final() || a.State == AttemptSucceeded && !a.Decided
}

// Progress is how far a job has come: what the plan of its next step depends on.
type Progress struct {
	Status      Status    `json:"status"`
	Version     int       `json:"version"`
	CompletedBy int       `json:"completed_by,omitempty"`
	Requested   string    `json:"requested,omitempty"`
	Error       *JobError `json:"error,omitempty"`
	Attempts    []Attempt `json:"attempts"` // by number

	// Certified is a provider that was skipped and has a certificate by now; empty: none is
	// known. The rows do not say it: a run that holds asks.
	Certified string `json:"certified,omitempty"`
}

// Attempt returns the attempt of that number.
func (p Progress) Attempt(number int) (Attempt, bool) {
	for _, a := range p.Attempts {
		if a.Number == number {
			return a, true
		}
	}
	return Attempt{}, false
}

// Unresolved returns the first attempt that blocks the next one.
func (p Progress) Unresolved() (Attempt, bool) {
	if blocking := p.AllUnresolved(); len(blocking) > 0 {
		return blocking[0], true
	}
	return Attempt{}, false
}

// undecided returns the first attempt with an answer that was not decided on.
func (p Progress) undecided() (Attempt, bool) {
	for _, a := range p.Attempts {
		if a.State == AttemptSucceeded && !a.Decided {
			return a, true
		}
	}
	return Attempt{}, false
}

// AllUnresolved returns the attempts that block the next one, by number: two at most, one
// in each lane.
func (p Progress) AllUnresolved() (blocking []Attempt) {
	for _, a := range p.Attempts {
		if a.Unresolved() {
			blocking = append(blocking, a)
		}
	}
	return blocking
}

// Submitted is the answer to a submit.
type Submitted struct {
	JobID      string `json:"job_id"`
	WorkflowID string `json:"workflow_id"`
	Status     Status `json:"status"`
	Created    bool   `json:"created"`  // false: the same intent was there before
	Launched   bool   `json:"launched"` // false: accepted, and started as soon as Temporal answers again
}

// Outcome is what a job's workflow returns.
type Outcome struct {
	JobID       string `json:"job_id"`
	Status      Status `json:"status"`
	CompletedBy int    `json:"completed_by"` // number of the winning attempt, 0: none
}
