// Package simulator is a provider that misbehaves on request. It is a real HTTP server
// with real connections: it can take a request and never answer, execute and hang up,
// answer late, twice, in part, or with any status, and it counts what it was asked and
// what it executed, so that a test can say how often an effect really happened.
//
// It speaks three providers' formats. What goes wrong is said, in each of them, by the
// body's member "simulate", else by JSON in the header Onejob-Simulate ([Directives]),
// else by the seeded [Plan]. The API key "bad" gets 401, a model whose name begins with
// "unknown" 404.
//
// # Plain
//
// POST /v1/run, or /v1/run/NAME to play the provider NAME, executes a JSON body.
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
// The directive accept answers with 202 and a reference, and executes behind that.
//
// # OpenAI and Anthropic
//
// Below /openai[/NAME]/v1: chat/completions, responses (in the background, too; look-up
// and cancel), models. Below /anthropic[/NAME]/v1: messages, messages/batches (look-up,
// results, cancel), messages/count_tokens, models. The answers have the shapes, the
// streams and the errors that the vendors document; package wire words them. Only a
// response in the background and a batch have references. A batch is one call; its
// directives may stand in the params of its first request.
//
// Any call can also be looked up by the caller's own reference in the plain format:
// /v1/run/openai/job/JOB/attempt/NUMBER for what came to /openai/v1.
//
// # Callbacks
//
// A request with the header Onejob-Callback is told of its outcome there, if its
// directives say so: [Callback]. The body is that of a plain look-up.
//
// # Idempotency
//
// Keys count within their provider. Whether one is honoured says the directive
// honour_key, else [Plan.HonourKeys], else [Options.HonourKeys]. An honoured key has its
// executed (accepted) call's reply again; while that is being executed it gets 409, with
// another body 422.
//
// # Control
//
// The control API below /_simulator/ counts, releases, waits, forgets keys, tells
// deliveries and resets; [Client] speaks it. It has no authentication: the simulator is
// for tests and demonstrations.
//
// Everything lives in memory and within bounds: bodies, requests in flight, names,
// waits, calls that can be looked up, callbacks. It imports nothing of this module.
package simulator
