package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api/wire"
	"github.com/onejob/onejob/postgres"
)

// submitted is the answer to a submit, the same for each time that it is sent, but for what has
// become of the job.
type submitted struct {
	JobID      string        `json:"job_id" format:"uuid" doc:"The job that this intention is, for ever."`
	WorkflowID string        `json:"workflow_id" example:"job/acme/parcel-1"`
	Status     onejob.Status `json:"status" enum:"accepted,running,unknown,succeeded,failed,cancelled"`
	Created    bool          `json:"created" doc:"false: the same intent was there before."`
	Launched   bool          `json:"launched" doc:"false: accepted, and started as soon as Temporal answers again."`
	Notice     string        `json:"notice,omitempty" doc:"What keeps the accepted job from starting and waiting will not mend."`
}

type submitOutput struct {
	Status   int
	Location string `header:"Location" doc:"The job."`
	Replayed string `header:"Idempotency-Replayed" doc:"true: the same intent was there before."`
	Body     submitted
}

func (d *Door) addJobs() {
	add(d, route{
		method: http.MethodPost, path: "/v1/jobs", id: "submit-job", tag: "Jobs", summary: "Submit an intention", status: http.StatusCreated, also: http.StatusOK,
		description: "Makes the intention a job: 201. The same intent under the same key again, from anywhere and at any time, is the same job: 200 and " +
			"`Idempotency-Replayed: true`. Another intent under the key is a conflict, and nothing is changed. Intent is kind, input, provider, " +
			"fallbacks, whether it hedges, and the callback URL. A request that is refused burns no key.",
		keyed: keyRequired, body: wire.Submission{}, example: json.RawMessage(`{"kind": "ticket", "provider": "primary", "input": {"text": "Where is my parcel?"}}`),
		most: d.options.Limits.InputBytes + mostEnvelopeBytes, problems: []ProblemType{budgetExceeded},
	}, d.submit)
	add(d, route{
		method: http.MethodGet, path: "/v1/jobs/{job}", id: "get-job", tag: "Jobs", summary: "Read a job",
		description: "With `wait`, the answer comes when the job is closed (succeeded, failed or cancelled), or after that time with how the job is by then.",
		problems:    []ProblemType{notFound},
	}, d.getJob)
	add(d, route{
		method: http.MethodGet, path: "/v1/jobs", id: "list-jobs", tag: "Jobs", summary: "List jobs",
		description: "The newest first; those of the status unknown the oldest first, since they wait for somebody. Without payloads and attempts. " +
			"One page looks through 5000 jobs at most: it may hold fewer than `limit`, none even, and have a next one.",
	}, d.listJobs)
}

func (d *Door) submit(ctx context.Context, _ *struct{}) (*submitOutput, error) {
	x := exchangeOf(ctx)
	key, err := idempotencyKey(x.request.Header)
	if err != nil {
		return nil, err
	}
	var s wire.Submission
	if err := decode(x, &s); err != nil {
		return nil, err
	}
	return d.submitRequest(ctx, s.Request(x.principal.Owner, key))
}

// submitRequest submits, and tells of a job that was accepted also what is wrong beside it.
func (d *Door) submitRequest(ctx context.Context, r onejob.Request) (*submitOutput, error) {
	answer, err := d.options.Starter.Submit(ctx, r)
	notice := ""
	if err != nil && answer.JobID != "" && errors.Is(err, onejob.ErrMisconfigured) {
		d.options.Logger.Error("accepted; its workflow cannot be started", "job_id", answer.JobID, "error", err)
		notice, err = "accepted; it cannot start until its operator has set up Temporal", nil
	}
	if err != nil {
		return nil, err
	}
	out := &submitOutput{Status: http.StatusCreated, Location: "/v1/jobs/" + answer.JobID, Body: submitted{
		JobID: answer.JobID, WorkflowID: answer.WorkflowID, Status: answer.Status, Created: answer.Created, Launched: answer.Launched, Notice: notice,
	}}
	if !answer.Created {
		out.Status, out.Replayed = http.StatusOK, "true"
	}
	return out, nil
}

// job is a job with its attempts and its result.
type job struct {
	onejob.View
	Result json.RawMessage `json:"result" doc:"Exactly as the provider wrote it; null: none."`
}

// exactly writes the job with the result as it is stored: no encoder touches it.
func (j job) exactly() ([]byte, error) {
	result := j.Result
	if result == nil {
		result = json.RawMessage("null")
	}
	text, err := marshal(j.View)
	if err != nil {
		return nil, err
	}
	return slices.Concat(text[:len(text)-1], []byte(`,"result":`), result, []byte("}")), nil
}

type jobOutput struct{ Body job }

// JobPath is the path of a job's routes. It is exported for huma, which reads no other part of a
// struct.
type JobPath struct {
	Job string `path:"job" doc:"The job's id." example:"01993b2e-7a1c-7c55-9d5b-0b8a4f7a1e11"`
}

type getJobInput struct {
	JobPath
	Wait string `query:"wait" doc:"How long to wait for the job's end, as Go writes it: up to 2m. Default: not at all." example:"30s"`
}

// longestWait is less than what proxies give a silent connection by most configurations.
const longestWait = 2 * time.Minute

func (d *Door) getJob(ctx context.Context, in *getJobInput) (*jobOutput, error) {
	found, err := d.job(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	wait, err := readWait(in.Wait)
	if err != nil || wait == 0 || found.Status.Closed() {
		return &jobOutput{found}, err
	}
	return d.await(ctx, in.Job, wait)
}

func readWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > longestWait {
		return 0, newProblem(invalidRequest, "wait %q is no time to wait: write it like 30s, up to %v", onejob.Shorten(text, 40), longestWait)
	}
	return wait, nil
}

// await returns the job when it is closed, or the time is over, or the door stops.
func (d *Door) await(ctx context.Context, jobID string, wait time.Duration) (*jobOutput, error) {
	if err := exchangeOf(ctx).patiently(wait, d.options.Timeouts); err != nil {
		return nil, err
	}
	changes, err := d.watch(exchangeOf(ctx), jobID, byPoll)
	if err != nil {
		return nil, err
	}
	defer changes.end()
	over := time.NewTimer(wait)
	defer over.Stop()
	for last := false; ; {
		found, err := d.job(ctx, jobID)
		if err != nil || found.Status.Closed() || last {
			return &jobOutput{found}, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changes.changed:
		case <-over.C:
			last = true
		case <-d.draining:
			last = true
		}
	}
}

// job returns the job if the request's principal may see it: another owner's is not found.
func (d *Door) job(ctx context.Context, id string) (job, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return job{}, noSuchJob(id)
	}
	detail, err := d.options.Starter.Get(ctx, parsed.String())
	if errors.Is(err, onejob.ErrNotFound) || err == nil && !principalOf(ctx).mayRead(detail.Owner) {
		return job{}, noSuchJob(id)
	}
	return job{View: detail.View, Result: detail.Result}, err
}

func noSuchJob(id string) error {
	return onejob.Errorf(onejob.CodeNotFound, "job %q does not exist: check the id", onejob.Shorten(id, 100))
}

type listJobsInput struct {
	Owner    string    `query:"owner" doc:"Whose; for operators. Default: the token's, for operators all."`
	Status   string    `query:"status" enum:"accepted,running,unknown,succeeded,failed,cancelled"`
	Kind     string    `query:"kind"`
	Provider string    `query:"provider" doc:"The primary one."`
	From     time.Time `query:"from" doc:"Created at this time or later (RFC 3339)."`
	To       time.Time `query:"to" doc:"Created before this time."`
	Label    []string  `query:"label,explode" doc:"name=value; of several all must hold." example:"[\"team=support\"]"`
	Cursor   string    `query:"cursor" doc:"The member next of the page before."`
	Limit    int       `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

type jobPage struct {
	Jobs []onejob.View `json:"jobs"`
	Next string        `json:"next,omitempty" doc:"The cursor of the next page; absent: there is none."`
}

type jobPageOutput struct{ Body jobPage }

func (d *Door) listJobs(ctx context.Context, in *listJobsInput) (*jobPageOutput, error) {
	f, err := in.filter(principalOf(ctx))
	if err != nil {
		return nil, err
	}
	page, err := d.options.Store.JobsPage(ctx, f)
	if err != nil {
		return nil, err
	}
	out := &jobPageOutput{jobPage{Jobs: make([]onejob.View, len(page.Jobs)), Next: page.Next}}
	for i := range page.Jobs {
		out.Body.Jobs[i] = page.Jobs[i].View(nil)
	}
	return out, nil
}

func (in *listJobsInput) filter(p Principal) (postgres.Filter, error) {
	owner, err := ownerToRead(p, in.Owner)
	if err != nil {
		return postgres.Filter{}, err
	}
	if in.Owner == "" && p.Role.Includes(onejob.RoleOperator) {
		owner = ""
	}
	if in.Cursor != "" && uuid.Validate(in.Cursor) != nil {
		return postgres.Filter{}, newProblem(invalidRequest, "cursor %q is none: use the member next of the page before", onejob.Shorten(in.Cursor, 60))
	}
	for name, value := range map[string]string{"kind": in.Kind, "provider": in.Provider} {
		if err := checkText(name, value); err != nil {
			return postgres.Filter{}, err
		}
	}
	labels, err := readLabels(in.Label)
	return postgres.Filter{
		Owner: owner, Status: onejob.Status(in.Status), Kind: in.Kind, Provider: in.Provider, From: in.From, To: in.To,
		Labels: labels, Before: in.Cursor, Limit: in.Limit,
	}, err
}

// mostLabels bounds a filter.
const mostLabels = 10

func readLabels(given []string) (map[string]string, error) {
	if len(given) > mostLabels {
		return nil, newProblem(invalidRequest, "%d labels are too many to filter by: use at most %d", len(given), mostLabels)
	}
	labels := map[string]string{}
	for _, label := range given {
		name, value, ok := strings.Cut(label, "=")
		if !ok || name == "" || checkText("label", label) != nil {
			return nil, newProblem(invalidRequest, "label %q is none: write it as name=value", onejob.Shorten(label, 60))
		}
		labels[name] = value
	}
	return labels, nil
}

// mostTextBytes bounds a word that is compared with what is stored.
const mostTextBytes = 500

// checkText refuses what no column can hold.
func checkText(name, value string) error {
	if len(value) > mostTextBytes || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return newProblem(invalidRequest, "%s %q is no text of at most %d bytes", name, onejob.Shorten(strings.ToValidUTF8(value, "?"), 60), mostTextBytes)
	}
	return nil
}

// ownerToRead returns whose things are asked for: the principal's, or those of the owner that an
// operator names.
func ownerToRead(p Principal, asked string) (string, error) {
	if asked == "" {
		return p.Owner, nil
	}
	if err := onejob.CheckName("owner", asked, onejob.MaxOwnerBytes); err != nil {
		return "", err
	}
	if !p.mayRead(asked) {
		return "", newProblem(forbidden, "owner %s is not the token's: only operators read what is another's", url.QueryEscape(onejob.Shorten(asked, 60)))
	}
	return asked, nil
}
