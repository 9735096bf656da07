// Package postgres holds every SQL statement of the running system. Postgres is the truth: what
// these methods committed happened, whatever Temporal, a worker or a caller believes.
//
// Each method of [Store] is one transaction. Each is safe to repeat with the same
// arguments when its acknowledgement was lost: ids, execution tokens and decision
// tokens tell an own earlier success from somebody else's. A method that changes state
// carries its condition in its name, and in SQL or under the lock of the job's row; it
// never decides by a read made before the lock. Rows are locked in one order, the job
// before its attempts.
//
// Methods fail with the errors of package onejob: [onejob.ErrServerUnreachable] when
// the database does not answer (nothing is known about the transaction: repeat it),
// [onejob.ErrMisconfigured] when the schema is missing, and the refusals that each
// method names.
//
// It imports the domain and the migrations, and nothing else of this module.
package postgres
