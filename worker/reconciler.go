package worker

import (
	"context"
	"sync"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/workflows"
)

// reconciler makes every open job have a workflow: it looks for those that nobody has
// watched for a while, and starts a run where none is. A job whose run is there is left
// alone: Temporal refuses the second start.
type reconciler struct {
	Config
	runs     workflows.Runs
	slots    []*attemptSlots
	circuits *activities.Circuits
	turns    int // so far
}

const (
	reconcileBatch   = 8  // jobs claimed and launched at once: few, or a job could end while it waits, and run again for nothing
	reconcileBatches = 60 // in one turn, so that many open jobs do not flood Temporal
	reconcileTimeout = 30 * time.Second
)

func newReconciler(config Config, runs workflows.Runs) *reconciler {
	return &reconciler{Config: config, runs: runs}
}

// run looks until ctx ends.
func (r *reconciler) run(ctx context.Context) {
	ticker := time.NewTicker(r.ReconcileEvery)
	defer ticker.Stop()
	for {
		r.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// turn takes batches until one is not full, and reads the gauges.
func (r *reconciler) turn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	for range reconcileBatches {
		jobs, err := r.Store.ClaimForReconcile(ctx, r.RelaunchAfter, reconcileBatch)
		if err != nil {
			r.Logger.Warn("the reconciler cannot read the open jobs; it tries again", "error", err)
			return
		}
		var launches sync.WaitGroup
		for i := range jobs {
			launches.Go(func() { r.relaunch(ctx, &jobs[i]) })
		}
		launches.Wait()
		if len(jobs) < reconcileBatch {
			break
		}
	}
	r.readCircuits(ctx)
	r.countUnknown(ctx)
	if r.turns%countEvery == 0 {
		r.countMessages(ctx)
	}
	r.turns++
	r.countListening()
}

// relaunch starts a run of the job if none is running. A failure is tried again at the
// job's next turn.
func (r *reconciler) relaunch(ctx context.Context, job *onejob.Job) {
	started, err := r.runs.Restart(ctx, r.catalog().Reference(job))
	switch {
	case err != nil:
		r.Logger.Warn("cannot launch the job's workflow; its next turn tries again", "job_id", job.ID, "error", err)
	case started:
		r.Metrics.launches.Inc()
		r.Logger.Info("launched a job that had no workflow", "job_id", job.ID, "status", job.Status)
	}
}

// readCircuits learns which providers no worker calls for now.
func (r *reconciler) readCircuits(ctx context.Context) {
	circuits, err := r.circuits.Refresh(ctx)
	if err != nil {
		r.Logger.Warn("cannot read the circuits", "error", err)
		return
	}
	r.Metrics.setCircuits(circuits)
}

func (r *reconciler) countListening() {
	counts := map[string]int{}
	for _, slots := range r.slots {
		slots.counts(counts)
	}
	r.Metrics.setListening(counts)
}

func (r *reconciler) countUnknown(ctx context.Context) {
	counts, err := r.Store.CountUnknown(ctx)
	if err != nil {
		r.Logger.Warn("cannot count the unknown attempts", "error", err)
		return
	}
	r.Metrics.setUnknown(counts)
}
