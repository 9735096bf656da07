// Package activities does what a job's workflow may not do itself: it writes to
// Postgres and calls providers. In the order of a job's life: register.go;
// execute_attempt.go, listen.go, follow.go and record.go; exits.go and seek_outcome.go, for
// one that is unknown; complete.go. Beside it: adopt.go, for a run that finds attempts
// there; decide.go and cancel_at_provider.go, for what people decide. Of no job at all are
// rebuild.go and audit.go, which run by schedule.
//
// Each activity but one may be repeated at will. The one is
// [Activities.ExecuteAttempt]: it runs at most once per attempt, and Temporal must not
// retry it (MaximumAttempts 1). Even so, what permits the provider call is the row that
// the execution itself inserted, never Temporal's word.
//
// Errors reach the workflow as Temporal application errors whose type is looked up in
// one table; all are non-retryable but those that waiting may mend.
//
// It imports the domain, postgres and provider, and nothing else of this module.
package activities
