package onejob

import "slices"

// Status is the state of a job.
type Status string

// The states of a job. Succeeded and cancelled are final; a failed job runs again
// only when somebody asks for a new attempt.
const (
	StatusAccepted  Status = "accepted"  // stored; no attempt has started
	StatusRunning   Status = "running"   // an attempt is under way or planned
	StatusUnknown   Status = "unknown"   // an attempt's outcome is not known; nothing starts before it is
	StatusSucceeded Status = "succeeded" // the result slot is filled
	StatusFailed    Status = "failed"    // the plan has no attempt left
	StatusCancelled Status = "cancelled" // somebody did not want it any more
)

// statusMoves lists every legal move of a job. The database refuses the others
// (migrations); a test compares the two.
var statusMoves = map[Status][]Status{
	StatusAccepted:  {StatusRunning, StatusCancelled},
	StatusRunning:   {StatusUnknown, StatusSucceeded, StatusFailed, StatusCancelled},
	StatusUnknown:   {StatusRunning, StatusSucceeded, StatusCancelled},
	StatusFailed:    {StatusRunning},
	StatusSucceeded: {},
	StatusCancelled: {},
}

// Statuses lists the states of a job in the order of its life.
func Statuses() []Status {
	return []Status{StatusAccepted, StatusRunning, StatusUnknown, StatusSucceeded, StatusFailed, StatusCancelled}
}

// CanBecome says whether a job may move from s to next.
func (s Status) CanBecome(next Status) bool { return slices.Contains(statusMoves[s], next) }

// Closed says that the job has an outcome: succeeded, failed or cancelled.
func (s Status) Closed() bool {
	return s == StatusSucceeded || s == StatusFailed || s == StatusCancelled
}

// Known says whether s is one of [Statuses].
func (s Status) Known() bool { _, ok := statusMoves[s]; return ok }

// AttemptState is the state of an attempt.
type AttemptState string

// The states of an attempt. Succeeded, failed and cancelled are final.
const (
	AttemptStarting  AttemptState = "starting"  // its row is committed; the request is about to go out, or is out
	AttemptRunning   AttemptState = "running"   // the provider took it and handed back a reference
	AttemptUnknown   AttemptState = "unknown"   // it may have reached the provider; nobody knows what became of it
	AttemptSucceeded AttemptState = "succeeded" // the provider answered; the result wins or is discarded
	AttemptFailed    AttemptState = "failed"    // it provably had no effect, or the provider's answer was a final no
	AttemptCancelled AttemptState = "cancelled" // somebody gave it up
)

// attemptMoves lists every legal move of an attempt; see statusMoves.
var attemptMoves = map[AttemptState][]AttemptState{
	AttemptStarting:  {AttemptRunning, AttemptUnknown, AttemptSucceeded, AttemptFailed, AttemptCancelled},
	AttemptRunning:   {AttemptUnknown, AttemptSucceeded, AttemptFailed, AttemptCancelled},
	AttemptUnknown:   {AttemptSucceeded, AttemptFailed, AttemptCancelled},
	AttemptSucceeded: {},
	AttemptFailed:    {},
	AttemptCancelled: {},
}

// AttemptStates lists the states of an attempt in the order of its life.
func AttemptStates() []AttemptState {
	return []AttemptState{AttemptStarting, AttemptRunning, AttemptUnknown, AttemptSucceeded, AttemptFailed, AttemptCancelled}
}

// CanBecome says whether an attempt may move from s to next.
func (s AttemptState) CanBecome(next AttemptState) bool {
	return slices.Contains(attemptMoves[s], next)
}

// Final says that the state never changes again. A state that is not one of
// [AttemptStates] is not final: what we cannot read must block the next attempt.
func (s AttemptState) Final() bool {
	moves, known := attemptMoves[s]
	return known && len(moves) == 0
}

// Reason is a bare code that says why an attempt is in its state. Prose belongs in
// the detail beside it.
type Reason string

// The reasons this module writes. An adapter may add its own.
const (
	// Failed: provably without effect, worth another try.
	ReasonNotSent        Reason = "not_sent"        // no byte of the request was written
	ReasonRefused        Reason = "refused"         // the provider is too busy and said so without doing anything
	ReasonProviderSilent Reason = "provider_silent" // not called: too many attempts listen to the provider's silence already
	ReasonCircuitOpen    Reason = "circuit_open"    // not called: the provider's calls fail one after the other, or somebody paused it
	ReasonNeverStarted   Reason = "never_started"   // the attempt was handed out and never ran; its number is fenced

	// Failed: a final answer.
	ReasonRejected        Reason = "rejected"         // the provider does not take this request
	ReasonProviderQuota   Reason = "provider_quota"   // our account at the provider is exhausted
	ReasonTooLarge        Reason = "too_large"        // the answer announced more bytes than the limit
	ReasonUnknownProvider Reason = "unknown_provider" // the worker's configuration does not name the provider
	ReasonNotCertified    Reason = "not_certified"    // not called: the fallback has no valid certificate for the kind's contract
	ReasonResolved        Reason = "resolved"         // an operator said so
	ReasonNotFound        Reason = "not_found"        // the provider does not know the call, and its configuration says that this is certain

	// Failed: an answer that is no result.
	ReasonContractViolation Reason = "contract_violation" // refusal, content filter, cut by length, a reply that breaks the contract, …: the detail names it
	ReasonProviderFailed    Reason = "provider_failed"    // the provider ran the call and says that it failed
	ReasonProviderCancelled Reason = "provider_cancelled" // the provider says that the call was cancelled

	// Either: the adapter gave none.
	ReasonUnspecified Reason = "unspecified"

	// Unknown.
	ReasonTimeout        Reason = "timeout"         // silent past the attempt's timeout; still listening
	ReasonListenEnded    Reason = "listen_ended"    // silent to the end of listen_for
	ReasonConnectionLost Reason = "connection_lost" // reset or closed after the request was written
	ReasonUnreadable     Reason = "unreadable"      // an answer that cannot be read as one
	ReasonServerError    Reason = "server_error"    // a status that does not say whether there was an effect
	ReasonInProgress     Reason = "in_progress"     // the provider says that it is still at it
	ReasonAwaitingAnswer Reason = "awaiting_answer" // the provider took it and will answer elsewhere
	ReasonWorkerLost     Reason = "worker_lost"     // nobody listens any more: the worker died or lost the attempt
	ReasonWorkerShutdown Reason = "worker_shutdown" // the worker ended before the answer came

	// Cancelled, and why a result was discarded.
	ReasonCancelled  Reason = "cancelled"   // by an operator or the owner
	ReasonSlotTaken  Reason = "slot_taken"  // another attempt's result had won
	ReasonJobClosed  Reason = "job_closed"  // the job had been cancelled or decided
	ReasonLateResult Reason = "late_result" // the attempt had been given up before its result came
)
