// Package messages carries what happened to those who must react to it.
//
// A [Message] is written in the transaction that makes it true, with a claim for each
// [Consumer] that hears its topic. A consumer's effect and its claims commit together, so
// that a message delivered ten times counts once; a try is counted and committed before the
// consumer sees the message, so that one that kills its process ends among the dead letters
// like one that fails. Order is not promised.
//
// [Runner] runs consumers, as many at once and in as many processes as there are: each
// claim is handed to one of them at a time. It decides when; the statements, and with them
// every promise above, are those of its [Store], which is package postgres.
//
// It imports the domain and nothing else of this module.
package messages
