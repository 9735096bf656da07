package anthropic

import (
	"encoding/json"
	"net/http"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

const ended = string(sdk.MessageBatchProcessingStatusEnded)

// readBatch says how far a batch is. One that ended has its outcome in its results.
func readBatch(m verdict.Message) (provider.Answer, bool) {
	batch, ok := batchIn(m)
	reference := verdict.FirstReference(m.ID)
	if !ok || reference == "" {
		return provider.Answer{}, false
	}
	switch batch.ProcessingStatus {
	case sdk.MessageBatchProcessingStatusInProgress, sdk.MessageBatchProcessingStatusCanceling, sdk.MessageBatchProcessingStatusEnded:
		return provider.Answer{Certainty: provider.Accepted, Reference: reference, Detail: string(batch.ProcessingStatus)}, true
	}
	return provider.Answer{}, false
}

func batchIn(m verdict.Message) (batch sdk.MessageBatch, ok bool) {
	ok = !m.Failed && m.Text("type") == "message_batch" && json.Unmarshal(m.Body, &batch) == nil
	return batch, ok
}

// cancelled judges the answer to a cancel: a batch that ended says whether its message
// was cancelled, one that is still cancelling does not.
func (a *Adapter) cancelled(r verdict.Received) provider.Cancellation {
	m, _ := verdict.Read(r.Body, a.line.Limits.Depth) // of an unreadable body the status counts
	batch, ok := batchIn(m)
	switch {
	case !ok || batch.ProcessingStatus != sdk.MessageBatchProcessingStatusEnded || r.Status != http.StatusOK:
		return a.batches.Cancel(r, http.StatusBadRequest) // which a batch that ended is answered with
	case batch.RequestCounts.Canceled > 0:
		return provider.Cancellation{Verdict: provider.CancelAgreed, Detail: ended}
	}
	return provider.Cancellation{Verdict: provider.CancelRefused, Detail: ended}
}

// readResult says what became of the message in a batch. Errored, canceled and expired
// messages are not billed; an error that is not about the request may be tried again.
func (r messageReader) readResult(m verdict.Message) (provider.Answer, bool) {
	switch m.Text("result", "type") {
	case "succeeded":
		message := m.At("result", "message")
		answer, ok := r.read(message)
		answer.Usage = counts.Read(message)
		return answer, ok
	case "errored":
		answer := r.certain.Failure(m.At("result", "error"))
		answer.Retryable = answer.Retryable || answer.Reason == onejob.ReasonProviderFailed
		return answer, true
	case "canceled":
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonProviderCancelled, Detail: "canceled"}, true
	case "expired":
		return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonProviderFailed, Retryable: true, Detail: "expired: the batch ended before the message was sent to the model"}, true
	}
	return provider.Answer{}, false
}
