package webhooks

import (
	"context"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// Topics are what owners may be told.
var Topics = []string{"job.succeeded", "job.failed", "job.cancelled"}

// Consumer is the group that turns messages into deliveries.
var Consumer = messages.Consumer{
	Group:  "webhooks",
	Topics: Topics,
	From:   messages.FromBeginning,
	Apply: func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
		keys := make([]string, len(batch))
		for i, message := range batch {
			keys[i] = message.Key
		}
		return postgres.FanOutOnce(ctx, tx, keys)
	},
}
