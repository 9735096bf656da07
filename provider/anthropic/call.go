package anthropic

import (
	"context"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// Call implements [provider.Adapter].
func (a *Adapter) Call(ctx context.Context, call provider.Call) provider.Answer {
	body, err := a.Body(call)
	if err != nil {
		return a.line.Clean(provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonRejected, Detail: "not sent: " + err.Error()})
	}
	call.Body = body
	answer, received := a.create(ctx, call)
	if received != nil {
		answer = a.calls.Answer(*received)
	}
	return a.line.Clean(answer)
}

// Body implements [provider.ReAsker].
func (a *Adapter) Body(call provider.Call) ([]byte, error) {
	body, err := a.rules.Body(call.Input)
	if err != nil || !a.batch {
		return body, err
	}
	return fmt.Appendf(nil, `{"requests":[{"custom_id":%q,"params":%s}]}`, customID(call.JobID, call.Attempt), body), nil
}

// customID is our name for the one message of a batch.
func customID(jobID string, attempt int) string { return fmt.Sprintf("%s-%d", jobID, attempt) }

// ReAsk implements [provider.ReAsker].
func (a *Adapter) ReAsk(ctx context.Context, call provider.Call) provider.Answer {
	if a.line.KeyHeader == "" || call.IdempotencyKey == "" {
		return line.NoKey
	}
	answer, received := a.create(ctx, call)
	if received != nil {
		return a.line.Clean(a.calls.ReAsk(*received))
	}
	return a.line.Clean(verdict.Undecided(answer))
}

// create sends the call's body. It returns what was received, or, if nothing was, the
// answer that this makes of a call.
func (a *Adapter) create(ctx context.Context, call provider.Call) (provider.Answer, *verdict.Received) {
	ctx, x := a.line.Exchange(ctx)
	options := named(x, call.JobID, call.Attempt)
	if a.line.KeyHeader != "" {
		options = append(options, option.WithHeader(a.line.KeyHeader, call.IdempotencyKey))
	}
	err := a.post(ctx, call.Body, options)
	received, ok := x.Received()
	if !ok {
		return x.Unanswered(err), nil
	}
	if line.Streams(received) {
		received = a.line.Fitting(wholeOf(received))
	}
	return provider.Answer{}, &received
}

// post posts the body. A message goes by the client's own verb: its messages service
// would add a time-out of ten minutes, and refuse what it believes to take longer.
func (a *Adapter) post(ctx context.Context, body []byte, options []option.RequestOption) (err error) {
	if a.batch {
		_, err = a.client.Messages.Batches.New(ctx, sdk.MessageBatchNewParams{}, append(options, option.WithRequestBody("application/json", body))...)
		return err
	}
	var message sdk.Message
	return a.client.Post(ctx, "v1/messages", body, &message, options...)
}

// named are the options of one exchange on behalf of an attempt.
func named(x *line.Exchange, jobID string, attempt int) []option.RequestOption {
	options := []option.RequestOption{option.WithMiddleware(x.Middleware)}
	line.NameCall(func(name, value string) { options = append(options, option.WithHeader(name, value)) }, jobID, attempt)
	return options
}
