package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/messages"
)

// What a look at the backlogs reads at most of each group: it is made every few seconds.
const (
	mostCounted = 100_000
	mostAged    = 10_000
)

// CountDeliveries returns how far behind webhooks are, bounded like [Store.Backlogs].
func (s *Store) CountDeliveries(ctx context.Context) (b messages.Backlog, err error) {
	var seconds *float64
	err = s.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM (SELECT FROM webhook_deliveries WHERE state = 'pending' LIMIT $1) x),
			(SELECT count(*) FROM (SELECT FROM webhook_deliveries WHERE state = 'dead' LIMIT $1) x),
			(SELECT extract(epoch FROM clock_timestamp() - min(m.created_at))::float8 FROM (
				SELECT message_key FROM webhook_deliveries WHERE state = 'pending' LIMIT $2) x JOIN outbox m USING (message_key))`,
		planned, mostCounted, mostAged).Scan(&b.Pending, &b.Dead, &seconds)
	b.Oldest = time.Duration(orZero(seconds) * float64(time.Second))
	return b, translate("count the webhooks", err)
}

// Backlogs returns how far behind each group is. Of pending messages and of dead letters it
// counts 100,000; the age is that of the oldest of 10,000, those that are due first.
func (s *Store) Backlogs(ctx context.Context) ([]messages.Backlog, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT g.consumer_group, g.topics,
			(SELECT count(*) FROM (SELECT FROM inbox i WHERE i.consumer_group = g.consumer_group AND state = 'pending' LIMIT $1) x),
			(SELECT count(*) FROM (SELECT FROM inbox i WHERE i.consumer_group = g.consumer_group AND state = 'dead' LIMIT $1) x),
			(SELECT extract(epoch FROM clock_timestamp() - min(m.created_at))::float8 FROM (
				SELECT message_key FROM inbox i WHERE i.consumer_group = g.consumer_group AND state = 'pending'
				ORDER BY next_try_at LIMIT $2) x JOIN outbox m USING (message_key))
		FROM (SELECT consumer_group, array_agg(topic::text ORDER BY topic) AS topics FROM subscriptions GROUP BY 1) g ORDER BY 1`, planned, mostCounted, mostAged)
	if err != nil {
		return nil, translate("count the messages", err)
	}
	backlogs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b messages.Backlog, err error) {
		var seconds *float64
		err = row.Scan(&b.Group, &b.Topics, &b.Pending, &b.Dead, &seconds)
		b.Oldest = time.Duration(orZero(seconds) * float64(time.Second))
		return b, err
	})
	return backlogs, translate("count the messages", err)
}
