// Package simulator is a provider that misbehaves on request. It is a real HTTP server
// with real connections: it can take a request and never answer, execute and hang up,
// answer late, twice, in part, or with any status, and it counts what it was asked and
// what it executed, so that a test can say how often an effect really happened.
//
// POST /v1/run, or /v1/run/NAME to play the provider NAME, executes a JSON body. What
// goes wrong is said by the body's member "simulate", or the header Onejob-Simulate
// ([Directives]), else by the seeded [Plan].
//
// # Ways to learn an outcome
//
// GET below /v1/run[/NAME] looks a call up: at /ref/REF by the simulator's reference, at
// /key/KEY or /job/JOB/attempt/NUMBER by the caller's own, at /ref by what the headers
// (or the query) of the look-up name. It answers
//
//	{"id": …, "status": "queued|running|succeeded|failed|cancelled", "result": …, "usage": …, "error": …}
//
// where the result is the body that the reply had or would have had. Every call can be
// looked up while it is under way and when it had its effect, also one whose reply was
// lost; one that had none is not found. POST to the same path and /cancel cancels a call
// that is not done; one that is done gets 409. [LookUps] and [Cancels] spoil the answers.
//
// A request with the header Onejob-Callback is told of its outcome there, if its
// directives say so: [Callback].
//
// # Control
//
// The control API below /_simulator/ counts, releases, waits, forgets keys and resets;
// [Client] speaks it. It has no authentication: the simulator is for tests and
// demonstrations.
//
// Everything lives in memory and within bounds: bodies, requests in flight, names,
// waits, calls that can be looked up, callbacks. It imports nothing of this module.
package simulator
