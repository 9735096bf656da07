package clicks

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lost returns the keys of those accepted clicks whose row is not there, or is another job's.
func (r Report) Lost(ctx context.Context, conn *pgx.Conn, owner string) (keys []string, err error) {
	accepted, ids := make([]string, len(r.Accepted)), make([]string, len(r.Accepted))
	for i, a := range r.Accepted {
		accepted[i], ids[i] = a.Key, a.JobID
	}
	rows, err := conn.Query(ctx, `
		SELECT key FROM unnest($1::text[], $2::uuid[]) AS accepted (key, id)
		WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.owner_id = $3 AND j.idempotency_key = accepted.key AND j.id = accepted.id)`, accepted, ids, owner)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Resent returns how many clicks were taken by a later try than the first.
func (r Report) Resent() (n int) {
	for _, a := range r.Accepted {
		if a.Tries > 1 {
			n++
		}
	}
	return n
}

// AwaitEnds waits until all jobs of the owner have ended, or ctx has.
func AwaitEnds(ctx context.Context, conn *pgx.Conn, owner string) error {
	return awaitNone(ctx, conn, `SELECT count(*) FROM jobs WHERE owner_id = $1 AND status NOT IN ('succeeded', 'failed', 'cancelled')`, owner)
}

// AwaitApplied waits until consumers have applied every message, or ctx ends.
func AwaitApplied(ctx context.Context, conn *pgx.Conn) error {
	return awaitNone(ctx, conn, `SELECT count(*) FROM inbox WHERE state <> 'done'`)
}

func awaitNone(ctx context.Context, conn *pgx.Conn, count string, arguments ...any) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var left int
		if err := conn.QueryRow(ctx, count, arguments...).Scan(&left); err != nil || left == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
