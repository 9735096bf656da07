package workflows

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
)

// open makes the run: it answers signals, updates and queries from the first moment, and
// knows its job when open returns. A run whose input or ID is wrong answers those who
// asked and fails.
//
// The returned context is not cancelled with the workflow: a cancellation request from
// Temporal is a decision about the job, recorded like any other.
func (w *Workflows) open(ctx workflow.Context, input json.RawMessage) (*jobRun, workflow.Context, error) {
	j := &jobRun{
		heartbeatTimeout: w.HeartbeatTimeout,
		firstLook:        cmp.Or(w.FirstLook, firstLook),
		queue:            workflow.GetInfo(ctx).TaskQueueName,
		underway:         map[int]workflow.CancelFunc{},
		searches:         map[int]*search{},
		reported:         map[int]onejob.Attempt{},
		notBefore:        map[int]time.Time{},
		hedgeAt:          map[int]time.Time{},
	}
	steady, _ := workflow.NewDisconnectedContext(ctx)
	if err := j.setHandlers(steady); err != nil {
		return j, steady, err
	}
	j.openErr = j.identify(steady, input)
	j.opened = true
	if j.openErr != nil {
		if err := j.settle(steady); err != nil {
			return j, steady, err
		}
		return j, steady, j.openErr
	}
	j.plan = j.ref.Plan()
	j.listenForCancel(ctx, steady)
	return j, steady, nil
}

// identify finds out whose run this is.
func (j *jobRun) identify(ctx workflow.Context, input json.RawMessage) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(input, &members); err == nil && members["job_id"] != nil {
		return j.identifyReference(ctx, input)
	}
	request, err := onejob.DecodeRequest(input)
	if err != nil {
		return activities.TemporalError(err)
	}
	return j.identifyRequest(ctx, request)
}

func (j *jobRun) identifyReference(ctx workflow.Context, input json.RawMessage) error {
	if err := onejob.DecodeStrict("workflow input", input, &j.ref); err != nil {
		return activities.TemporalError(err)
	}
	if want, id := onejob.WorkflowID(j.ref.Owner, j.ref.Key), workflow.GetInfo(ctx).WorkflowExecution.ID; want != id {
		return activities.TemporalError(onejob.Errorf(onejob.CodeIdentityMismatch, "workflow %q is not the one of owner %q and key %q: start it as %q", id, j.ref.Owner, j.ref.Key, want))
	}
	j.stale, j.shown = j.ref.Adopt, onejob.StatusRunning
	return nil
}

// identifyRequest registers the job of a request that came straight from Temporal.
func (j *jobRun) identifyRequest(ctx workflow.Context, request onejob.Request) error {
	registration, err := j.register(ctx, request)
	if err != nil {
		return err
	}
	j.ref, j.created = registration.Job, registration.Created
	j.stale = !registration.Created
	j.shown = onejob.StatusRunning
	return workflow.UpsertTypedSearchAttributes(ctx,
		AttributeOwner.ValueSet(j.ref.Owner), AttributeKind.ValueSet(j.ref.Kind),
		AttributeProvider.ValueSet(j.ref.Provider), AttributeStatus.ValueSet(string(j.shown)))
}

// register inserts the request's job. It runs as a local activity for as long as Postgres
// takes, so that the payload stands in the history only once.
func (j *jobRun) register(ctx workflow.Context, request onejob.Request) (activities.Registration, error) {
	var id string
	newID := func(workflow.Context) any { return uuid.Must(uuid.NewV7()).String() }
	if err := workflow.SideEffect(ctx, newID).Get(&id); err != nil {
		return activities.Registration{}, err
	}
	var a *activities.Activities
	var registration activities.Registration
	err := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, registerOptions), a.RegisterJob,
		activities.RegisterInput{Request: request, WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID, JobID: id}).Get(ctx, &registration)
	return registration, err
}

// adopting returns the reference for a run that goes on where this one stopped.
func (j *jobRun) adopting() onejob.Reference {
	ref := j.ref
	ref.Adopt = true
	return ref
}
