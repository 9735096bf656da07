// Package faults holds tests that kill workers and cut their connection to Postgres at
// chosen moments. The worker is the real one, `onejob worker`, as a process of its own;
// package pgproxy stands between it and Postgres. What each test asks in the end: how
// often did the provider execute, is there one result, do the rows say what is known. The
// mixed run asks besides whether money moved once, however often messages were delivered.
//
// Of the door, `onejob serve`, an instance is killed under load by the clients of package clicks.
// What they were told at last is held against the rows.
package faults
