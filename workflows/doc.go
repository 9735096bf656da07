// Package workflows orchestrates jobs on Temporal. [Workflows.Job] is the plan of one
// job: it asks [onejob.Plan.Next] for the next step and has the activities do it, until
// the job is over.
//
// A run knows nothing that the rows do not say. It may be reset, terminated, replayed
// from an older history or lost with Temporal's store: the next run under the same ID
// adopts the rows, calls no provider for an attempt that exists, and goes on. So a run
// follows three rules. It runs only under its job's own ID. It learns of changes by
// reading the rows; a signal is no more than the hint to read them, and a slow durable
// timer does without the hint. And it writes no state of its own anywhere.
//
// The happy path pays for nothing it does not use: one regular activity, one local one,
// no timer, no signal, no upsert; [Runs] sets the search attributes at the start.
//
// It imports the domain, activities and postgres (for the types of their arguments), and
// nothing else of this module.
package workflows
