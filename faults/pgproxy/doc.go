// Package pgproxy stands between a test and Postgres and breaks the connection at a
// chosen moment: before a statement, before a COMMIT, between a COMMIT and its
// acknowledgement, or all of it at once.
//
// It speaks the wire protocol, so a moment is named by the SQL text that leads to it: a
// match is a part of a statement. Statements are followed through Parse, Bind and
// Execute, whether they are named, pipelined or sent as a simple Query. A rule about a
// COMMIT matches a transaction by any statement that ran in it. A statement outside a
// transaction block, and a pipeline up to its Sync, is a transaction of its own.
//
// Encryption is refused, so a URL of the proxy says sslmode=disable; requests to cancel
// a statement pass. The proxy follows one statement in each simple Query; of several in
// one it knows the text, and takes the first to be what the Query does.
//
// It imports nothing of this module.
package pgproxy
