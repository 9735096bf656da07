// Package worker runs jobs: the workflow and the activities on Temporal's task queue, the
// reconciler that starts what was accepted and never launched, or lost its workflow, and
// the consumers of messages, its own and those of [WithConsumer].
// Any number of workers share the work; any of them may be killed at any moment.
//
// It may be embedded, with providers of the program's own:
//
//	w, err := worker.New(config, worker.WithProvider(provider.Provider{Name: "mine", …}))
//	err = w.Run(ctx)
//
// [Worker.Run] returns after ctx ended and the worker has drained: no new work at once,
// calls in flight get the drain time, what still hangs is recorded as unknown
// (worker_shutdown).
//
// It imports the domain, postgres, provider, messages, activities, callbacks, webhooks and
// workflows, and nothing else of this module.
package worker
