package worker

import (
	"cmp"
	"sync"

	"go.temporal.io/sdk/worker"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/workflows"
)

// limitedPollers are enough for a queue that is limited anyway.
const limitedPollers = 2

// limitedWorker polls the queue of a provider with limits, where its attempts wait without
// keeping anybody's place. Temporal limits the queue's rate for all workers together; how
// many calls run at once the attempts' rows say, for all workers together as well, and no
// worker takes more than that.
func (w *Worker) limitedWorker(p provider.Provider) (worker.Worker, error) {
	slots := newAttemptSlots(cmp.Or(p.Limits.Concurrent, w.config.Working), w.config.Listening)
	w.reconciler.slots = append(w.reconciler.slots, slots)
	options, err := w.config.temporalOptions(slots)
	if err != nil {
		return nil, err
	}
	options.OnFatalError = w.giveUpTemporal
	options.DisableWorkflowWorker = true
	options.MaxConcurrentActivityTaskPollers = limitedPollers
	options.TaskQueueActivitiesPerSecond = p.Limits.PerSecond
	limited := worker.New(w.config.Temporal, workflows.ProviderQueue(w.config.TaskQueue, p.Name), options)
	limited.RegisterActivity(w.activities(slots))
	return limited, nil
}

// start starts polling. If it fails nothing is polled.
func (w *Worker) start() error {
	started := []worker.Worker{}
	for _, one := range append([]worker.Worker{w.temporal}, w.limited...) {
		if err := one.Start(); err != nil {
			stopAll(started)
			return err
		}
		started = append(started, one)
	}
	return nil
}

// stop drains all at once.
func (w *Worker) stop() { stopAll(append([]worker.Worker{w.temporal}, w.limited...)) }

func stopAll(workers []worker.Worker) {
	var stopping sync.WaitGroup
	for _, one := range workers {
		stopping.Go(one.Stop)
	}
	stopping.Wait()
}
