package httpjson

import (
	"context"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/internal/line"
	"github.com/onejob/onejob/provider/transport"
	"github.com/onejob/onejob/provider/verdict"
)

var _ provider.ReAsker = (*Adapter)(nil)

// Body implements [provider.ReAsker]: the input is sent as it is.
func (a *Adapter) Body(call provider.Call) ([]byte, error) { return call.Input, nil }

// ReAsk implements [provider.ReAsker].
func (a *Adapter) ReAsk(ctx context.Context, call provider.Call) provider.Answer {
	if a.line.KeyHeader == "" || call.IdempotencyKey == "" {
		return line.NoKey
	}
	ctx, trace := transport.WithTrace(ctx)
	r, err := a.line.Send(a.run(ctx, call, call.Body))
	if err != nil {
		return a.line.Clean(verdict.Undecided(verdict.Unanswered(ctx, trace.Sent(), err)))
	}
	return a.line.Clean(a.calls.ReAsk(r))
}
