// Package certify says whether a model of a provider honours a contract: what it is asked, how
// each of its answers is judged, and what all of them together prove.
//
// A certification has five checks. The prompts render, fit the model's context and survive its
// tokenizer ([Prepare], before anything is paid for). Each reply has the structure that the
// contract wants, and means what its rules and facts say; calls cost, take and count what they
// may; the system prompt is obeyed ([Judge], one answer at a time). [Conclude] makes a [Report]
// of the answers and decides.
//
// It is pure apart from the counter of tokens that it is given: it makes no call, reads no clock
// and stores nothing. The same answers give the same report.
//
// It imports the domain, contract and provider, and nothing else of this module.
package certify
