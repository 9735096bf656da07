// Package api is the HTTP door: what programs submit, read and decide over HTTP, and what they
// are told of it. docs/http.md is its page for those who use it.
//
// It promises that a request means what the same call of package starter means: an intention
// under an owner's key is one job, whichever instance got it and however often. The owner is who
// the bearer token says, never what a request says; of another owner's job nobody learns that it
// exists. Every error is an RFC 9457 problem whose type is one of [Problems]. Whatever a client
// sends or does not send costs a bounded time and memory: bodies, headers, rates, waiting
// requests and streams have limits of their own.
//
// What it serves is described by the OpenAPI document that it makes of its own routes: a route
// that is not in there does not exist, and every route in there asks for a token first.
//
// State changes are derived from the rows of jobs and attempts. Nothing is written for them: a
// [watcher] looks at all jobs that somebody waits for in one statement.
//
// It imports the domain, starter, postgres, messages (for one error) and webhooks, and nothing
// else of this module. It holds no SQL.
package api
