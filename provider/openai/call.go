package openai

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3/option"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/verdict"
)

// api is what differs between the two APIs.
type api struct {
	create  func(ctx context.Context, options []option.RequestOption) error
	whole   func(stream verdict.Received) verdict.Received // of a stream of events, the answer without it
	answers verdict.API
	asked   bool   // it has look-up and cancel
	sample  string // an input that costs little

	prompted func(provider.Prompt) (json.RawMessage, error)
	reply    func(result json.RawMessage) (provider.Reply, error)
	version  string // of the two
}

// Call implements [provider.Adapter].
func (a *Adapter) Call(ctx context.Context, call provider.Call) provider.Answer {
	body, err := a.Body(call)
	if err != nil {
		return a.line.Clean(provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonRejected, Detail: "not sent: " + err.Error()})
	}
	call.Body = body
	answer, received := a.create(ctx, call)
	if received != nil {
		answer = a.judge.Answer(*received)
	}
	return a.line.Clean(answer)
}

// Body implements [provider.ReAsker].
func (a *Adapter) Body(call provider.Call) ([]byte, error) { return a.rules.Body(call.Input) }

// ReAsk implements [provider.ReAsker].
func (a *Adapter) ReAsk(ctx context.Context, call provider.Call) provider.Answer {
	if a.line.KeyHeader == "" || call.IdempotencyKey == "" {
		return line.NoKey
	}
	answer, received := a.create(ctx, call)
	if received != nil {
		return a.line.Clean(a.judge.ReAsk(*received))
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
	err := a.api.create(ctx, append(options, option.WithRequestBody("application/json", call.Body)))
	received, ok := x.Received()
	if !ok {
		return x.Unanswered(err), nil
	}
	if line.Streams(received) {
		received = a.line.Fitting(a.api.whole(received))
	}
	return provider.Answer{}, &received
}

// named are the options of one exchange on behalf of an attempt.
func named(x *line.Exchange, jobID string, attempt int) []option.RequestOption {
	options := []option.RequestOption{option.WithMiddleware(x.Middleware)}
	line.NameCall(func(name, value string) { options = append(options, option.WithHeader(name, value)) }, jobID, attempt)
	return options
}
