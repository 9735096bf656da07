// Package onejob turns every intention of a user into exactly one durable job.
//
// A job is identified by its owner and an idempotency key that the owner chose.
// However often it is submitted, there is one row, one Temporal workflow and one
// winning result. Tries are attempts under the job; an attempt whose request may
// have reached its provider and whose outcome nobody knows is unknown, never
// failed, and blocks the next one.
//
// This package holds the words: jobs, attempts and their states, identity,
// fingerprint, the plan of attempts, errors. It is pure: no clock, no database, no
// network, and it imports nothing else of this module.
//
// # Follow one job through the folders
//
//  1. [Request] is what a caller wants; [NewJob] validates it against a [Catalog]
//     and computes its workflow ID ([WorkflowID]) and fingerprint ([Fingerprint]).
//  2. starter: Submit commits the row (postgres, the tables of migrations) and then
//     starts the workflow.
//  3. workflows: Job asks [Plan.Next] what to do, and does it, until the job is over.
//  4. activities: ExecuteAttempt commits the attempt's row, calls the provider
//     (provider: its adapters, and transport, which sends
//     a request at most once), records the outcome; CompleteJob lets one result
//     win. Of an unknown attempt SeekOutcome looks for the outcome; callbacks hears
//     providers that call back.
//  5. postgres: with the result commit the owner's charge, by the prices of the call's start,
//     the settled reservation of its budget, and the messages that tell of it all.
//  6. messages: hands each message to the consumers that hear its topic, once as far as their
//     effect goes; those of postgres sum up usage and credit referrals, webhooks tells owners.
//  7. postgres: RebuildUsageDay makes the sums anew from the ledger, Audit compares all that
//     must agree; workflows runs both every hour.
//  8. worker: runs all of that, and the reconciler that starts what lost its workflow.
//  9. cmd/onejob: the command line; api: the HTTP door; config: onejob.yaml; contract: what
//     a kind of job asks a model, and what its reply must be.
//
// To see it run: dev (Temporal and Postgres on one machine), simulator (a provider that
// misbehaves on request), examples. To see it hold: e2e (whole stories on real
// servers), faults (the wire broken at a chosen moment), mutants
// (mistakes that tests must see), bench. To run it for others:
// deploy, docker-compose.yml. tools pins what all of that is built with.
//
// The invariants that all of it keeps are listed in docs/design.md.
package onejob
