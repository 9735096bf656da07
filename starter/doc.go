// Package starter is the Go SDK: it submits jobs, reads them, and decides about their
// attempts. The command line and every other door use nothing else.
//
// It promises that an intention, submitted any number of times from anywhere, is one
// job: the row under (owner, key) is committed before the workflow is started, so a job
// that was accepted survives Temporal being down, and one that Postgres did not take
// was never started. What [Starter.Submit] answered once, it answers for ever, also
// after Temporal has forgotten the workflow.
//
// It fails with the errors of package onejob: [onejob.ErrInvalidRequest],
// [onejob.ErrConflict], [onejob.ErrNotFound], the refusals [onejob.ErrAttemptUnresolved],
// [onejob.ErrNothingToResolve] and [onejob.ErrJobClosed], and
// [onejob.ErrServerUnreachable].
//
// It imports the domain, postgres and workflows, and nothing else of this
// module.
package starter
