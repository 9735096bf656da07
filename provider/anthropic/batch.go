package anthropic

import (
	"bytes"
	"context"
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// CanLookUp implements [provider.LookUpper]: a batch is known by the id that the provider
// gave it.
func (a *Adapter) CanLookUp(q provider.Question) bool { return a.batch && q.Reference != "" }

// LookUp implements [provider.LookUpper]. Of a batch that ended it fetches the result.
func (a *Adapter) LookUp(ctx context.Context, q provider.Question) provider.Answer {
	if !a.CanLookUp(q) {
		return provider.Answer{Certainty: provider.Unknown, Reason: onejob.ReasonNotSent, Detail: "the provider cannot be asked about this call"}
	}
	call, x := a.line.Exchange(ctx)
	_, err := a.client.Messages.Batches.Get(call, q.Reference, sdk.MessageBatchGetParams{}, named(x, q.JobID, q.Attempt)...)
	received, ok := x.Received()
	if !ok {
		return a.line.Clean(verdict.Undecided(x.Unanswered(err)))
	}
	answer := a.batches.LookUp(received, q.Age)
	if answer.Reason == onejob.ReasonInProgress && answer.Detail == ended {
		answer = a.fetch(ctx, q)
	}
	return a.line.Clean(answer)
}

// fetch fetches what the batch holds.
func (a *Adapter) fetch(ctx context.Context, q provider.Question) provider.Answer {
	ctx, x := a.line.Exchange(ctx)
	stream := a.client.Messages.Batches.ResultsStreaming(ctx, q.Reference, sdk.MessageBatchResultsParams{}, named(x, q.JobID, q.Attempt)...)
	defer func() { _ = stream.Close() }() // what the SDK reads of it does not count
	received, ok := x.Received()
	if !ok {
		return verdict.Undecided(x.Unanswered(stream.Err()))
	}
	if received.Body != nil {
		received.Body = lineOf(received.Body, customID(q.JobID, q.Attempt))
	}
	return a.results.LookUp(received, q.Age)
}

// lineOf returns the line about the message of that name, nil if there is none.
func lineOf(lines []byte, customID string) []byte {
	for text := range bytes.Lines(lines) {
		var result struct {
			CustomID string `json:"custom_id"`
		}
		if json.Unmarshal(text, &result) == nil && result.CustomID == customID {
			return text
		}
	}
	return nil
}

// Cancel implements [provider.Canceller]. A batch that is being cancelled may still come
// to its end.
func (a *Adapter) Cancel(ctx context.Context, q provider.Question) provider.Cancellation {
	if !a.CanLookUp(q) {
		return provider.Cancellation{Verdict: provider.CancelUnasked, Detail: "the provider cannot be asked to cancel this call"}
	}
	ctx, x := a.line.Exchange(ctx)
	_, err := a.client.Messages.Batches.Cancel(ctx, q.Reference, sdk.MessageBatchCancelParams{}, named(x, q.JobID, q.Attempt)...)
	received, ok := x.Received()
	if !ok {
		return provider.Cancellation{Verdict: provider.CancelUnsure, Detail: a.line.Secrets.Clean(x.Unanswered(err).Detail)}
	}
	c := a.cancelled(received)
	c.Detail = a.line.Secrets.Clean(c.Detail)
	return c
}
